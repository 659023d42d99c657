package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/pgstore"
)

// member is a relay of a cell's fleet, with the links that lead to its servers. A process follows the other when it was
// killed; links stay.
type member struct {
	process
	cell             *cell
	engine           string
	database, broker *faultnet.Proxy // nil: directly
	admin            string          // where its metrics are; empty: nowhere
}

// process is a relay's: crashtest's for the handler, the program for brokers.
type process interface {
	PID() int
	Kill()
	Suspend()
	Resume()
	Terminate()
}

func (c *cell) newMember(i int) *member {
	m := &member{cell: c, engine: c.engines[i]}
	if c.needs == links {
		m.database = c.link(fmt.Sprintf("127.0.0.1:%d", c.server.Port()))
		if c.target != nil {
			m.broker = c.link(c.target.addr())
		}
	}
	return m
}

func (c *cell) link(addr string) *faultnet.Proxy {
	c.t.Helper()
	p, err := faultnet.Start(addr)
	c.must(err)
	c.t.Cleanup(func() { p.Close() })
	return p
}

// named adds the application's name to a URL.
func named(url, name string) string { return url + "&application_name=" + name }

// through leads a URL by way of a proxy.
func through(url string, server *pgdev.Server, link *faultnet.Proxy) string {
	return strings.Replace(url, fmt.Sprintf("127.0.0.1:%d", server.Port()), link.Addr(), 1)
}

func (m *member) url() string {
	url := named(m.cell.url(), "relay")
	if m.database != nil {
		url = through(url, m.cell.server, m.database)
	}
	return url
}

// listenURL leads around the pooler.
func (m *member) listenURL() string {
	if m.cell.pooled == "" {
		return ""
	}
	return named(m.cell.direct, "relay")
}

// start starts the relay, or another one in its place, and waits until it is registered.
func (m *member) start() {
	c := m.cell
	c.t.Helper()
	if c.target == nil {
		p := c.plan
		p.URL, p.ListenURL = m.url(), m.listenURL()
		if m.engine == pgstore.EngineWAL.String() {
			p.Engine = pgstore.EngineWAL
		}
		m.process = startRelays(c.h, p, 1)[0]
		return
	}
	var env []string
	if c.watched {
		port, err := devservices.FreePort()
		c.must(err)
		m.admin = fmt.Sprintf("127.0.0.1:%d", port)
		env = append(env, "OUTBOX_ADMIN_LISTEN="+m.admin)
	}
	p := newProgram(c.t, "run", "--config", m.config())
	p.Env = append(p.Env, env...)
	p.launch(c.t)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("relay of process %d:\n%s", p.Process.Pid, p.tail())
		}
	})
	m.process = daemon{p, c.t}
	until(c.t, patience, "the relay runs", func() bool { return p.says(c.t, "relay registered", "") > 0 })
}

func (m *member) config() string {
	c := m.cell
	addr := c.target.addr()
	if m.broker != nil {
		addr = m.broker.Addr()
	}
	keep := "off"
	if c.plan.Keep > 0 {
		keep = "1d"
	}
	file := filepath.Join(c.t.TempDir(), "outbox.yaml")
	text := fmt.Sprintf(`
database: {url: %q, listen_url: %q, migrate: check}
engine: %s
lease: %v
max_attempts: 2 # so that one that should not be spent shows
retry: {base: 100ms, max: 1s}
keep_delivered: %s
destinations:
  matrix: {%s, slots: %d}
routes: [{topics: [">"], to: matrix}]
log: {format: json}
`, m.url(), m.listenURL(), m.engine, lease, keep, c.target.settings(addr), slots)
	c.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// daemon is the program as a process of the fleet.
type daemon struct {
	p *program
	t *testing.T
}

func (d daemon) PID() int   { return d.p.Process.Pid }
func (d daemon) Suspend()   { d.signal(syscall.SIGSTOP) }
func (d daemon) Resume()    { d.signal(syscall.SIGCONT) }
func (d daemon) Terminate() { d.t.Helper(); d.p.stop(d.t) }

// Kill waits until the process is gone.
func (d daemon) Kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	_ = d.p.Wait() // it was killed
}

func (d daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.p.Process.Signal(s); err != nil {
		d.t.Fatalf("send %v to the relay: %v", s, err)
	}
}

// tail is the end of what the program has logged.
func (p *program) tail() string {
	const most = 16 << 10
	text := p.text()
	return text[max(0, len(text)-most):]
}

var (
	_ process = daemon{}
	_ process = (*crashtest.Process)(nil)
)

// Package pgbouncerdev puts a private PgBouncer in transaction mode before a PostgreSQL server.
package pgbouncerdev

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// Config changes what a pooler does; the zero value is complete.
type Config struct {
	// PoolSize is how many connections to the server each database and user has. Default 20.
	PoolSize int
	// PreparedStatements is how many prepared statements of clients the pooler remembers for them. Default 0: it
	// loses them, as all versions before 1.21 do. Start fails with ErrTooOld if the version cannot.
	PreparedStatements int
}

// ErrTooOld: the installed version cannot keep prepared statements.
var ErrTooOld = errors.New("PgBouncer before 1.21 loses prepared statements")

// Server is a PgBouncer on a loopback port. It lets in whom the URL given to Start names, and ends with this process
// at the latest.
type Server struct {
	program program
	cfg     Config
	sup     *devservices.Supervisor
	server  *url.URL
	port    int
}

// Start starts a pooler before the server of a connection string and returns when it accepts connections. An error
// that matches devservices.ErrNotInstalled says what to install. The context bounds the start only.
func Start(ctx context.Context, serverURL string, cfg Config) (*Server, error) {
	return start(ctx, serverURL, cfg, devservices.FreePort)
}

func start(ctx context.Context, serverURL string, cfg Config, freePort func() (int, error)) (*Server, error) {
	server, err := url.Parse(serverURL)
	if err != nil || server.Host == "" {
		return nil, errors.New("start pgbouncer: the server's URL is none")
	}
	program, err := find(ctx, devservices.ThisMachine(), places[:])
	if err != nil {
		return nil, err
	}
	account, err := devservices.ServiceAccount("postgres", "nobody")
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	sup, err := devservices.Supervise("pgbouncer", account, finishScript)
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	s := &Server{program: program, cfg: cfg, sup: sup, server: server}
	if err := s.listen(ctx, freePort); err != nil {
		return nil, errors.Join(fmt.Errorf("start pgbouncer: %w", err), sup.Close())
	}
	return s, nil
}

// finishScript asks the pooler to end at once, and does not ask for long.
const finishScript = `test -s pid || exit 0
read -r pid <pid
kill -TERM "$pid"
for _ in 1 2 3 4 5 6 7 8 9 10; do
	kill -0 "$pid" || exit 0
	sleep 0.2
done
kill -KILL "$pid"`

// listen starts the pooler, on another port when the chosen one was taken meanwhile.
func (s *Server) listen(ctx context.Context, freePort func() (int, error)) (err error) {
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.start(ctx); err == nil || !strings.Contains(s.Log(), "in use") {
			break
		}
	}
	return err
}

// Restart kills the pooler, which cuts all connections through it, and starts it again on the same port.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.sup.Run(ctx, "sh", "-c", "kill -KILL $(cat pid)"); err != nil {
		return fmt.Errorf("kill pgbouncer: %w", err)
	}
	// It would be taken for that of a pooler that runs while nobody has reaped the killed one.
	if err := os.Remove(filepath.Join(s.sup.Dir, "pid")); err != nil {
		return fmt.Errorf("restart pgbouncer: %w", err)
	}
	err := s.start(ctx)
	for range 20 { // while the killed one still has the port
		if err == nil || !strings.Contains(s.Log(), "in use") {
			break
		}
		time.Sleep(50 * time.Millisecond)
		err = s.start(ctx)
	}
	if err != nil {
		return fmt.Errorf("restart pgbouncer: %w", err)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	cfg := s.cfg
	if cfg.PreparedStatements > 0 && !s.program.keepsPreparedStatements() {
		return fmt.Errorf("%w: %s", ErrTooOld, s.program.version)
	}
	for name, text := range map[string]string{"ini": s.ini(cfg), "users": s.users()} {
		if err := os.WriteFile(filepath.Join(s.sup.Dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Join(s.sup.Dir, "log")) // of the attempt before, if there was one
	if err := s.sup.Run(ctx, s.program.path, "-q", "-d", "ini"); err != nil {
		return fmt.Errorf("%w\nlog:\n%s", err, s.Log())
	}
	return s.awaitPort(ctx)
}

func (s *Server) ini(cfg Config) string {
	size := cfg.PoolSize
	if size == 0 {
		size = 20
	}
	port := s.server.Port()
	if port == "" {
		port = "5432"
	}
	dir := s.sup.Dir
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = transaction
default_pool_size = %d
max_client_conn = 200
auth_type = plain
auth_file = %s
logfile = %s
pidfile = %s
ignore_startup_parameters = extra_float_digits
`, s.server.Hostname(), port, s.port, size, filepath.Join(dir, "users"), filepath.Join(dir, "log"), filepath.Join(dir, "pid"))
	if s.program.keepsPreparedStatements() {
		text += fmt.Sprintf("max_prepared_statements = %d\n", cfg.PreparedStatements)
	}
	return text
}

// users are the one that the server's URL names.
func (s *Server) users() string {
	quote := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }
	return quote(s.server.User.Username()) + " " + quote(s.password()) + "\n"
}

// password is the server's, or one that a server which asks for none does not look at.
func (s *Server) password() string {
	if password, has := s.server.User.Password(); has {
		return password
	}
	return "none"
}

// awaitPort reads the log: that something accepts connections would not tell that it is this pooler.
func (s *Server) awaitPort(ctx context.Context) error {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		log := s.Log()
		if strings.Contains(log, fmt.Sprintf("listening on 127.0.0.1:%d", s.port)) {
			return nil
		}
		if strings.Contains(log, "FATAL") || ctx.Err() != nil {
			return fmt.Errorf("does not listen; log:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// URL is the connection string of the named database, by way of the pooler.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(s.server.User.Username(), s.password()),
		Host: fmt.Sprintf("127.0.0.1:%d", s.port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Log is what the pooler has written to its log.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.sup.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Close ends the pooler and removes its folder.
func (s *Server) Close() error { return s.sup.Close() }

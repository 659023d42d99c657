package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// night is an outbox that is in trouble, and an operator at a terminal.
type night struct {
	url        string
	env        []string // of the operator's shell, beside that of this process
	admin      *pgx.Conn
	nats       func(t *testing.T, words []string) // runs the other program
	transcript strings.Builder
	typed      []string
}

// newNight makes an outbox. The environment says where it is, so the commands that are printed need no more.
func newNight(t *testing.T) *night {
	t.Helper()
	n := &night{}
	n.at(t, migrated(t))
	return n
}

// at sets the operator before a database. The lease is short, so that nobody waits for long, and a third of it, what a call may take,
// is enough on a busy machine.
func (n *night) at(t *testing.T, url string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(dir, "outbox")); err != nil {
		t.Fatal(err)
	}
	n.url, n.admin = url, connect(t, url)
	n.env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), envProgram + "=1", noAdmin, "OUTBOX_DATABASE_URL=" + url, "OUTBOX_TO=stdout:",
		"OUTBOX_LEASE=3s", "OUTBOX_POLL_INTERVAL=100ms"}
}

// types types a command at a terminal, as it stands, and answers yes if it asks.
func (n *night) types(t *testing.T, command string) result {
	t.Helper()
	n.typed = append(n.typed, command)
	switch {
	case strings.HasSuffix(command, ";"):
		n.pastes(t, command)
		return result{}
	case strings.HasPrefix(command, "nats "):
		n.nats(t, n.words(t, command))
		return result{}
	}
	far, near := terminal(t)
	defer far.Close()
	defer near.Close()
	if _, err := far.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, log strings.Builder
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), n.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = near, &out, &log
	_ = cmd.Run() // the exit code tells
	fmt.Fprintf(&n.transcript, "$ %s\n%s%s", command, out.String(), log.String())
	return result{cmd.ProcessState.ExitCode(), out.String(), log.String()}
}

// pastes pastes SQL, as the owner of everything.
func (n *night) pastes(t *testing.T, sql string) {
	t.Helper()
	if _, err := n.admin.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// words are those of a command, as a shell takes it apart.
func (n *night) words(t *testing.T, command string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// runs starts a command that does not end, as it stands.
func (n *night) runs(t *testing.T, command string, stdout io.Writer, env ...string) *program {
	t.Helper()
	n.typed = append(n.typed, command)
	p := &program{exec.Command("sh", "-c", "exec "+command), &lockedBuffer{}}
	p.Env = slices.Concat(os.Environ(), n.env, env)
	p.Stdout, p.Stderr = stdout, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", command, p.log.String())
		}
	})
	return p
}

// delivers starts the relay that a command names, and returns what it delivers.
func (n *night) delivers(t *testing.T, command string, env ...string) (*program, *lockedBuffer) {
	t.Helper()
	out := &lockedBuffer{}
	return n.runs(t, command, out, env...), out
}

// stalls starts a relay that delivers to somebody who does not read.
func (n *night) stalls(t *testing.T, env ...string) *program {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	p := n.runs(t, "outbox run", write, env...)
	write.Close()
	return p
}

// handles runs a relay in this process.
func (n *night) handles(t *testing.T, cfg outbox.Config, handle outbox.SinkFunc) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	store, err := pgstore.Open(t.Context(), n.url, &pgstore.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger, cfg.Lease, cfg.PollInterval = quiet, 3*time.Second, 100*time.Millisecond
	relay, err := outbox.NewRelay(store, outbox.To(handle), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		store.Close()
	})
}

// publishes publishes a message and returns its id.
func (n *night) publishes(t *testing.T, flags string) string {
	t.Helper()
	return strings.TrimSpace(n.types(t, "outbox publish "+flags).want(t, exitDone).out)
}

// publishesLarge publishes a message that is larger than a pipe.
func (n *night) publishesLarge(t *testing.T, topic, key string) string {
	t.Helper()
	var id string
	err := n.admin.QueryRow(t.Context(), "select outbox.publish($1, convert_to(repeat('x', 300000), 'UTF8'), key => $2)::text", topic, key).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sees types a command until its answer has all parts.
func (n *night) sees(t *testing.T, command string, parts ...string) (r result) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		r = n.types(t, command)
		missing := slices.IndexFunc(parts, func(part string) bool { return !strings.Contains(r.out+r.err, part) })
		if missing < 0 {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not tell %q:\n%s%s", command, parts[missing], r.out, r.err)
		}
	}
}

// seesNo types a command until its answer has no such part any more.
func (n *night) seesNo(t *testing.T, command, part string) (r result) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if r = n.types(t, command); !strings.Contains(r.out+r.err, part) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s goes on to tell %q:\n%s%s", command, part, r.out, r.err)
		}
	}
}

// named is the command that an answer names: on the line that has a text, or on the next.
func named(t *testing.T, r result, text string) string {
	t.Helper()
	lines := strings.Split(r.out+r.err, "\n")
	for i, line := range lines {
		if !strings.Contains(line, text) {
			continue
		}
		for _, l := range lines[i:min(i+2, len(lines))] {
			if _, command, ok := strings.Cut(l, arrow); ok {
				return strings.TrimSpace(command)
			}
		}
	}
	t.Fatalf("no command is named for %q in:\n%s%s", text, r.out, r.err)
	return ""
}

// follows types a command, and returns the command that its answer names for a text.
func (n *night) follows(t *testing.T, command, text string) string {
	t.Helper()
	return named(t, n.sees(t, command, text), text)
}

const states = "## States\n"

var (
	stateHeading = regexp.MustCompile(`(?m)^### (.+)$`)
	fence        = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
)

// stateSections are the parts of the runbook that tell of a state, by their headings.
func stateSections(text string) map[string]string {
	_, rest, _ := strings.Cut(text, "\n"+states)
	rest, _, _ = strings.Cut(rest, "\n## ")
	sections := map[string]string{}
	marks := stateHeading.FindAllStringSubmatchIndex(rest, -1)
	for i, m := range marks {
		end := len(rest)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		sections[rest[m[2]:m[3]]] = rest[m[1]:end]
	}
	return sections
}

// runbookProblems compares the sections with the cases: each needs the other.
func runbookProblems(text string, cases map[string]func(*testing.T, *night)) (problems []string) {
	sections := stateSections(text)
	for name := range cases {
		if sections[name] == "" {
			problems = append(problems, fmt.Sprintf("the runbook has no part %q", name))
		}
	}
	for name := range sections {
		if cases[name] == nil {
			problems = append(problems, fmt.Sprintf("no test plays %q of the runbook", name))
		}
	}
	return problems
}

var (
	anyID    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyTime  = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`)
	anyURL   = regexp.MustCompile(`(postgres|nats|amqp)://[^\s'"]+`)
	anyCount = regexp.MustCompile(`\d[\d,]*(\.\d+)?(ms|µs|s|m|h\d\dm|d\d\dh)?\b`)
	anyGap   = regexp.MustCompile(`\s+`)
)

// alike is a line without what differs from night to night.
func (n *night) alike(line string) string {
	host, err := os.Hostname()
	if err == nil {
		line = strings.ReplaceAll(line, host, "web-1")
	}
	if cfg, err := pgx.ParseConfig(n.url); err == nil && cfg.Database != "" {
		line = strings.ReplaceAll(line, cfg.Database, "shop")
	}
	line = anyURL.ReplaceAllString(line, "$1://")
	line = anyID.ReplaceAllString(line, "ID")
	line = anyTime.ReplaceAllString(line, "TIME")
	line = anyCount.ReplaceAllString(line, "N")
	return strings.TrimSpace(anyGap.ReplaceAllString(line, " "))
}

// untold is what a section shows and the night did not: lines of answers, where … stands for anything, commands, SQL.
func (n *night) untold(section string) (problems []string) {
	var told []string
	for line := range strings.Lines(n.transcript.String()) {
		told = append(told, n.alike(line))
	}
	var typed []string
	for _, command := range n.typed {
		typed = append(typed, n.alike(command))
	}
	blocks := fence.FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		problems = append(problems, "the section shows nothing")
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[2]) {
			line = n.alike(line)
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case block[1] == "text" && !slices.ContainsFunc(told, func(t string) bool { return hasParts(t, strings.Split(line, "…")) }):
				problems = append(problems, "nothing says: "+line)
			case block[1] != "text" && !slices.Contains(typed, line):
				problems = append(problems, "nobody types: "+line)
			}
		}
	}
	return problems
}

// hasParts reports whether a text has parts, one after the other.
func hasParts(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, strings.TrimSpace(part))
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// TestRunbook plays every state of docs/operations.md: it makes the state, reads what the program says about it, types the command
// that this names, as it stands, and sees the state end. What the runbook shows is what was read and typed.
func TestRunbook(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays many states")
	}
	text := file(t, runbook)
	cases := stuckStates()
	for _, problem := range runbookProblems(text, cases) {
		t.Error(problem)
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			t.Cleanup(func() {
				if t.Failed() || os.Getenv("OUTBOX_TEST_TRANSCRIPTS") != "" {
					t.Logf("%s\n%s", name, n.transcript.String())
				}
			})
			play(t, n)
			for _, problem := range n.untold(stateSections(text)[name]) {
				t.Error(problem)
			}
		})
	}
}

// TestRunbookFires: a part without a test, a test without a part, and what nobody says or types are found.
func TestRunbookFires(t *testing.T) {
	text, cases := file(t, runbook), stuckStates()
	for _, name := range []string{"No relay is alive"} {
		fewer := map[string]func(*testing.T, *night){}
		for other, play := range cases {
			if other != name {
				fewer[other] = play
			}
		}
		if got := runbookProblems(text, fewer); len(got) != 1 || !strings.Contains(got[0], "no test plays") {
			t.Errorf("without the test: %q", got)
		}
		if got := runbookProblems(strings.Replace(text, "### "+name+"\n", "", 1), cases); len(got) != 1 || !strings.Contains(got[0], "has no part") {
			t.Errorf("without the part: %q", got)
		}
	}
	n := &night{typed: []string{"outbox retry --id 019545c8-4c35-7000-8000-000000000001"}}
	n.transcript.WriteString("warning  4 keys,   for 6h02m  → outbox keys\n")
	for section, want := range map[string]int{
		"": 1,
		"```text\nwarning 17 keys, for 3s → outbox keys\n```\n```sh\noutbox retry --id 019545c8-4c35-7000-8000-00000000000f\n```": 0,
		"```text\nwarning … → outbox keys\n```": 0,
		"```text\nwarning … → outbox why\n```":  1,
		"```sh\noutbox retry\n```":              1,
		"```sql\nselect 1;\n```":                1,
	} {
		if got := n.untold(section); len(got) != want {
			t.Errorf("%q: %q", section, got)
		}
	}
}

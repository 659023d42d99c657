package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

var postgres Shared

func TestMain(m *testing.M) {
	postgres.Parallel, _ = strconv.Atoi(os.Getenv(envParallel)) // none is 0
	os.Exit(postgres.Run(m))
}

// envLeak makes TestLeak leave a goroutine behind.
const envLeak = "OUTBOX_TEST_PGTEST_LEAK"

func TestDatabaseIsOwn(t *testing.T) {
	first, second := postgres.Database(t), postgres.Database(t)
	run(t, first, "create table t ()")
	run(t, second, "create table t ()")
}

func TestDatabaseGoesWithTheTest(t *testing.T) {
	var url string
	t.Run("user", func(t *testing.T) { url = postgres.Database(t) })
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Errorf("%s is still there", url)
	}
}

func TestDatabaseFrom(t *testing.T) {
	prepared := 0
	prepare := func(ctx context.Context, url string) error {
		prepared++
		run(t, url, "create table prepared ()")
		return nil
	}
	for range 2 {
		run(t, postgres.DatabaseFrom(t, "prepared", prepare), "select from prepared")
	}
	if prepared != 1 {
		t.Errorf("prepared %d times, want once", prepared)
	}
}

func TestGivenServer(t *testing.T) {
	server := Server(t, pgdev.Config{})
	t.Setenv(pgdev.EnvURL, server.URL("postgres"))
	var given Shared
	before := databases(t, server)
	t.Run("user", func(t *testing.T) {
		url := given.DatabaseFrom(t, "any", func(context.Context, string) error { return nil })
		if !strings.Contains(url, fmt.Sprintf(":%d/", server.Port())) {
			t.Errorf("database %s is not on the given server", url)
		}
	})
	if err := given.close(); err != nil {
		t.Fatal(err)
	}
	if after := databases(t, server); after != before {
		t.Errorf("databases %s, were %s", after, before)
	}
	run(t, server.URL("postgres"), "select 1") // not ours to stop
}

func TestGivenServerRefused(t *testing.T) {
	t.Setenv(pgdev.EnvURL, "nonsense")
	var given Shared
	if v := verdictOf(func(t testing.TB) { given.Cluster(t) }); !strings.Contains(v, "fatal: "+pgdev.EnvURL) {
		t.Errorf("verdict %q, want fatal with the variable's name", v)
	}
}

func TestRequire(t *testing.T) {
	missing := fmt.Errorf("it is %w", devservices.ErrNotInstalled)
	cases := []struct {
		name, ci string
		err      error
		want     string
	}{
		{"there", "", nil, ""},
		{"missing on a laptop", "", missing, "skip: it is not installed"},
		{"missing in CI", "true", missing, "fatal: it is not installed"},
		{"broken on a laptop", "", errors.New("broken"), "fatal: broken"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			machine := devservices.Machine{Getenv: func(string) string { return c.ci }}
			got := verdictOf(func(t testing.TB) { require(t, machine, c.err) })
			if got != c.want {
				t.Errorf("verdict %q, want %q", got, c.want)
			}
		})
	}
}

func TestRunFindsLeaks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, leak := range []bool{false, true} {
		cmd := exec.Command(exe, "-test.run=^TestLeak$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", envLeak, leak))
		out, err := cmd.CombinedOutput()
		if failed := err != nil; failed != leak {
			t.Errorf("leak %v: %v\n%s", leak, err, out)
		}
	}
}

func TestLeak(t *testing.T) {
	if os.Getenv(envLeak) == "true" {
		go func() { select {} }()
	}
}

// recorder notes how a test would have ended.
type recorder struct {
	testing.TB
	verdict string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.end("skip: ", args) }

func (r *recorder) Fatal(args ...any) { r.end("fatal: ", args) }

func (r *recorder) end(how string, args []any) {
	r.verdict = how + fmt.Sprint(args...)
	runtime.Goexit()
}

func verdictOf(test func(t testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.verdict
}

func run(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func databases(t *testing.T, s *pgdev.Server) (names string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql := "select string_agg(datname, ' ' order by datname) from pg_database"
	if err := conn.QueryRow(t.Context(), sql).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

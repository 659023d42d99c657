package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	postgres = pgtest.Shared{Parallel: 4}
	update   = flag.Bool("update", false, "rewrite the golden files")
)

// envProgram makes the test binary be the program.
const envProgram = "OUTBOX_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		main()
	}
	os.Exit(postgres.Run(m))
}

// result is what a call of the program left.
type result struct {
	code     int
	out, err string
}

// noAdmin keeps relays that are not asked anything from the default address of probes.
const noAdmin = "OUTBOX_ADMIN_LISTEN=off"

// call runs the program in this process.
func call(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	if args[0] == "run" {
		env = append([]string{noAdmin}, env...)
	}
	code := run(t.Context(), args, env, &out, &err)
	return result{code, out.String(), err.String()}
}

// want fails the test when a call did not end as wanted.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	return r
}

// decode reads the JSON that a call wrote.
func decode[T any](t *testing.T, r result) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	return v
}

// repeatedFlags are those of a call that commands repeat which it prints.
var repeatedFlags = regexp.MustCompile(` --database-url '[^']*'( --to stdout:)?`)

// golden compares a text with the file of that name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = repeatedFlags.ReplaceAllString(got, "")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with go test -update", err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// migrated makes a database with the outbox.
func migrated(t *testing.T) (url string) {
	t.Helper()
	url = copied(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	execSQL(t, conn, "update outbox.setting set value = outbox.home() where name = 'home'")
	return url
}

// copied makes a database with an outbox that was made in another one.
func copied(t *testing.T) (url string) {
	t.Helper()
	return postgres.DatabaseFrom(t, "migrated", func(ctx context.Context, url string) error {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			return err
		}
		m, err := pgstore.NewMigrator(cfg, "")
		if err != nil {
			return err
		}
		_, err = m.Up(ctx)
		return err
	})
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execSQL(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "outbox.yaml"), text)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const patience = 90 * time.Second // of a machine that others use, too
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in: %s", part, text)
		}
	}
}

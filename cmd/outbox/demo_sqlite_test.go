package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/outboxrelay/outbox/internal/demo"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// TestDemoNeedsNothing: on a machine without PostgreSQL, NATS and RabbitMQ, whose PATH has the shell's usual commands
// only, the demo takes a SQLite file and the NATS server that is in the program.
func TestDemoNeedsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	bin := barePath(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(exe, "demo", "--orders=200", "--json")
	cmd.Env = []string{"PATH=" + bin, pgdev.EnvDirs + "=", envProgram + "=1", "TMPDIR=" + dir}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got demo.Summary
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Committed != 200 || got.Delivered != 200 || got.RolledBack != 20 || got.KilledInFlight == 0 || got.Lost+got.Phantom+got.OrderViolations != 0 {
		t.Errorf("%+v", got)
	}
	wantIn(t, stderr.String(), "SQLite and NATS are there", "is killed (SIGKILL) while it holds ", "relay 2 has them")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("folders %v are left, %v", left, err)
	}
}

// barePath is a folder for PATH with the shell's usual commands.
func barePath(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"cat", "mktemp", "rm", "sh", "sleep"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestDemoChoosesSQLite: also where PostgreSQL is installed.
func TestDemoChoosesSQLite(t *testing.T) {
	t.Parallel()
	r := call(t, demoEnv, "demo", "--orders=20", "--database=sqlite:").want(t, exitDone)
	wantIn(t, r.out, "committed 20 orders in SQLite", "The private SQLite and NATS are gone again", "outbox run --database-url sqlite:shop.db")
	call(t, demoEnv, "demo", "--database=sqlite:shop.db").want(t, exitUsage)
}

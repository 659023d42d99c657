package pgdev

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// mustCopy skips the test where the server came without pg_basebackup.
func mustCopy(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopyNeedsItsProgram: a server without pg_basebackup says so instead of failing half-way.
func TestCopyNeedsItsProgram(t *testing.T) {
	s := &Server{bin: t.TempDir()}
	install(t, s.bin)
	_, standby := s.Standby(t.Context())
	for _, err := range []error{standby, s.Backup(t.Context(), "one")} {
		wantInError(t, err, "pg_basebackup", s.bin)
		if !errors.Is(err, devservices.ErrNotInstalled) {
			t.Errorf("%v, want %v", err, devservices.ErrNotInstalled)
		}
	}
}

// TestStandby: a standby has what was committed, takes no writes, and takes them once promoted.
func TestStandby(t *testing.T) {
	primary := start(t, Config{Settings: map[string]string{"work_mem": "1MB"}})
	mustExec(t, connect(t, primary.URL("postgres")), "create table kept (n int)")
	standby, err := primary.Standby(t.Context())
	mustCopy(t, err)
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	conn := connect(t, primary.URL("postgres"))
	mustExec(t, conn, "alter system set synchronous_standby_names = '*'")
	mustExec(t, conn, "select pg_reload_conf()")
	eventually(t, "the server waits for its standby", func() bool {
		return queryText(t, conn, "select count(*)::text from pg_stat_replication where sync_state = 'sync'") == "1"
	})
	mustExec(t, conn, "set synchronous_commit = remote_apply")
	mustExec(t, conn, "insert into kept values (1)")
	copied := connect(t, standby.URL("postgres"))
	for query, want := range map[string]string{"select count(*)::text from kept": "1", "show work_mem": "1MB", "select pg_is_in_recovery()::text": "true"} {
		if got := queryText(t, copied, query); got != want {
			t.Errorf("standby: %s: %s, want %s", query, got, want)
		}
	}
	if _, err := copied.Exec(t.Context(), "insert into kept values (2)"); err == nil {
		t.Error("the standby took a write")
	}
	if err := primary.Stop(t.Context(), Immediate); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, connect(t, standby.URL("postgres")), "insert into kept values (2)")
}

// TestRestore: what was written after the backup is gone, also when it is restored again.
func TestRestore(t *testing.T) {
	s := start(t, Config{})
	mustExec(t, connect(t, s.URL("postgres")), "create table kept (n int)")
	mustCopy(t, s.Backup(t.Context(), "one"))
	for i := range 2 {
		mustExec(t, connect(t, s.URL("postgres")), fmt.Sprintf("insert into kept values (%d)", i))
		if err := s.Stop(t.Context(), Immediate); err != nil {
			t.Fatal(err)
		}
		if err := s.Restore(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := queryText(t, connect(t, s.URL("postgres")), "select count(*)::text from kept"); got != "0" {
			t.Errorf("restored with %s rows", got)
		}
	}
}

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

const lease = time.Minute

// publish publishes in a transaction of its own.
func publish(t testing.TB, s *Store, ms ...outbox.Message) (receipts []outbox.Receipt) {
	t.Helper()
	err := s.InTx(t.Context(), func(tx *sql.Tx) (err error) {
		receipts, err = s.Publish(t.Context(), tx, ms...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func TestConfigRefused(t *testing.T) {
	_, err := New(nil, &Config{Prefix: "Outbox", Migrate: "later", MaxPayload: -1, DedupWindow: -1, BusyTimeout: -1})
	for _, field := range []string{"Prefix", "Migrate", "MaxPayload", "DedupWindow", "BusyTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field+" ") {
			t.Errorf("%s is not refused: %v", field, err)
		}
	}
	for prefix, valid := range map[string]bool{"outbox_": true, "a": true, "sqlite_x": false, "1a": false, "a-b": false, "": false, strings.Repeat("a", 41): false} {
		if validPrefix(prefix) != valid {
			t.Errorf("prefix %q: valid %v", prefix, !valid)
		}
	}
}

// TestMigrateAtOnce: many processes, one outbox.
func TestMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a file with 100%? of it.db")
	name := strings.NewReplacer("%", "%25", "?", "%3f").Replace(path)
	var group sync.WaitGroup
	for range 6 {
		s := newStore(t, openFile(t, name), nil)
		group.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	db := openFile(t, name)
	if n := count(t, db, "select count(*) from outbox_migration"); n != 1 {
		t.Errorf("%d migrations are noted", n)
	}
	if mode := text(t, db, "pragma journal_mode"); mode != "wal" {
		t.Errorf("journal mode %s", mode)
	}
}

// TestPrefixes: two outboxes in one file, and tables of somebody else's.
func TestPrefixes(t *testing.T) {
	db := openFile(t, migratedFile(t))
	other := newStore(t, db, &Config{Prefix: "second_"})
	ctx := t.Context()
	if err := other.checkVersion(ctx); !errors.Is(err, outbox.ErrSchemaMissing) {
		t.Errorf("check: %v", err)
	}
	err := other.InTx(ctx, func(tx *sql.Tx) error { return nil })
	if !errors.Is(err, outbox.ErrSchemaMissing) || !strings.Contains(err.Error(), "outbox migrate up") {
		t.Errorf("publish: %v", err)
	}
	if err := other.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	publish(t, other, outbox.Message{Topic: "a"})
	if first, second := count(t, db, "select count(*) from outbox_message"), count(t, db, "select count(*) from second_message"); first != 0 || second != 1 {
		t.Errorf("%d and %d messages", first, second)
	}
	if err := other.MigrateDown(ctx); err == nil {
		t.Error("an outbox with a message was taken away")
	}
	if _, err := other.Discard(ctx, outbox.Change{Filter: outbox.Filter{All: true}, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := other.MigrateDown(ctx); err != nil {
		t.Fatal(err)
	}
	if left := count(t, db, "select count(*) from sqlite_schema where name like 'second%'"); left != 0 {
		t.Errorf("%d tables are left", left)
	}
	if _, err := db.ExecContext(ctx, "create table third_message (x)"); err != nil {
		t.Fatal(err)
	}
	if err := newStore(t, db, &Config{Prefix: "third_"}).Migrate(ctx); err == nil || !strings.Contains(err.Error(), "third_message") {
		t.Errorf("a foreign table: %v", err)
	}
	if _, err := db.ExecContext(ctx, "insert into outbox_migration values (99, 'of the future', 0)"); err != nil {
		t.Fatal(err)
	}
	if err := newStore(t, db, nil).Migrate(ctx); !errors.Is(err, outbox.ErrSchemaTooNew) {
		t.Errorf("a newer outbox: %v", err)
	}
}

// TestFailedPublishLeavesNothing: the caller may catch the error and commit all the same.
func TestFailedPublishLeavesNothing(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	taken := outbox.NewID()
	publish(t, s, outbox.Message{ID: taken, Topic: "a"})
	err := s.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := s.Publish(t.Context(), tx, outbox.Message{Topic: "b", DedupKey: "k"}, outbox.Message{ID: taken, Topic: "b"})
		if !errors.Is(err, outbox.ErrDuplicateID) {
			t.Errorf("published: %v", err)
		}
		if _, err := s.Publish(t.Context(), nil); !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("without a transaction: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "select (select count(*) from outbox_message where topic = 'b') + (select count(*) from outbox_dedup where topic = 'b')"); n != 0 {
		t.Errorf("%d rows of a publishing that failed", n)
	}
}

// TestOneConnection: a pool of one connection is enough for an application and a relay.
func TestOneConnection(t *testing.T) {
	db := openFile(t, migratedFile(t))
	db.SetMaxOpenConns(1)
	s := newStore(t, db, nil)
	for range 20 {
		publish(t, s, outbox.Message{Topic: "a", Key: "k"})
	}
	sink := &outboxtest.Recorder{}
	relay, err := outbox.NewRelay(s, outbox.To(sink), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := relay.RunUntilIdle(t.Context())
	if err != nil || n.Delivered != 20 {
		t.Errorf("delivered %d, %v", n.Delivered, err)
	}
}

// TestCommitWakes: a commit of InTx is told at once, without Listen; one that is rolled back is not.
func TestCommitWakes(t *testing.T) {
	s := newStore(t, openFile(t, migratedFile(t)), nil)
	errRollback := errors.New("roll back")
	if err := s.InTx(t.Context(), func(*sql.Tx) error { return errRollback }); !errors.Is(err, errRollback) {
		t.Errorf("InTx returned %v", err)
	}
	if s.signal.seen() != 0 {
		t.Error("a rollback wakes")
	}
	publish(t, s, outbox.Message{Topic: "a"})
	if n, err := s.Wait(t.Context(), 0, time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("%d wake-ups, %v", n, err)
	}
}

// TestBusyFile: a relay waits for another writer as long as it may, and leaves nothing behind.
func TestBusyFile(t *testing.T) {
	path := migratedFile(t)
	db := openFile(t, path)
	s := newStore(t, openFile(t, path), &Config{BusyTimeout: 50 * time.Millisecond})
	tx, err := db.BeginTx(t.Context(), nil) // a writer, by _txlock
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	info := outbox.RelayInfo{ID: outbox.NewID(), Lease: lease}
	if _, err := s.Beat(t.Context(), info, nil); !errors.Is(err, errBusyTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beat: %v", err)
	}
	if _, err := s.Depths(t.Context()); err != nil {
		t.Errorf("readers do not wait for writers: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(t.Context(), info, nil); err != nil {
		t.Errorf("beat of the free file: %v", err)
	}
}

// TestQueriesAreUsed: no statement is left over, and none is missing.
func TestQueriesAreUsed(t *testing.T) {
	used := goSources(t)
	for name := range newStatements(defaultPrefix) {
		if !strings.Contains(used, `"`+name+`"`) {
			t.Errorf("nobody uses %s.sql", name)
		}
	}
}

// goSources are the package's, tests apart.
func goSources(t *testing.T) (all string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(source)
	}
	return all
}

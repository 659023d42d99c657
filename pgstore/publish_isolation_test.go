package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// bothPublish runs two SERIALIZABLE transactions that publish the messages side by side, each before the other
// commits, and returns the first error of a statement or commit.
func bothPublish(t *testing.T, url string, read string, m outbox.Message) error {
	t.Helper()
	p := newPublisher(t, nil)
	var txs [2]pgx.Tx
	for i := range txs {
		tx, err := connect(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
		if err != nil {
			t.Fatal(err)
		}
		txs[i] = tx
		if _, err := tx.Exec(t.Context(), read); err != nil {
			t.Fatal(err)
		}
	}
	for _, tx := range txs {
		if _, err := p.Publish(t.Context(), tx, m, m); err != nil {
			return err
		}
	}
	return errors.Join(txs[0].Commit(t.Context()), txs[1].Commit(t.Context()))
}

// TestPublishSerializable: plain publishing reads nothing that others write, so it adds no conflict. That the
// arrangement finds conflicts is shown by transactions that read the table themselves.
func TestPublishSerializable(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	if err := bothPublish(t, url, "select 1", outbox.Message{Topic: "t", Key: "k", Headers: map[string]string{"a": "b"}}); err != nil {
		t.Errorf("plain: %v", err)
	}
	err := bothPublish(t, url, "select count(*) from outbox.message", outbox.Message{Topic: "t"})
	if state, _ := sqlError(err); state != "40001" {
		t.Errorf("with a read of the table: %v, want SQLSTATE 40001", err)
	}
}

// TestPublishAnyDefaults: the defaults of a session change nothing about what is published.
func TestPublishAnyDefaults(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"default_transaction_isolation = 'repeatable read'", "default_transaction_isolation = 'serializable'",
		"work_mem = '64kB'", "timezone = 'Asia/Kolkata'", "datestyle = 'German, DMY'", "intervalstyle = 'sql_standard'",
		"search_path = ''", "bytea_output = 'escape'", "plan_cache_mode = 'force_generic_plan'", "extra_float_digits = 0",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, migratedDatabase(t))
			exec(t, conn, "set "+setting)
			ms := append(everyMessage(), special(everyMessage())...)
			receipts := publish(t, conn, newPublisher(t, nil), ms...)
			exec(t, conn, "reset all")
			checkStored(t, stored(t, conn), ms, receipts)
		})
	}
}

// TestPublishReadOnlyDefault: a transaction that says read write publishes where the default is read only; one that
// does not is refused by the database, and the error comes through.
func TestPublishReadOnlyDefault(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "set default_transaction_read_only = on")
	p := newPublisher(t, nil)
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	if _, err := tryPublish(t.Context(), conn, pgx.TxOptions{AccessMode: pgx.ReadWrite}, p, m); err != nil {
		t.Error(err)
	}
	_, err := tryPublish(t.Context(), conn, pgx.TxOptions{}, p, outbox.Message{Topic: "t"})
	if state, _ := sqlError(err); state != "25006" {
		t.Errorf("%v, want SQLSTATE 25006", err)
	}
}

// TestPublishDeadline: with a frozen database, publishing fails when its context ends, and leaves nothing.
func TestPublishDeadline(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgdev.Config{})
	url := server.URL("postgres")
	conn := connect(t, url)
	if err := migrateUp(t.Context(), conn, DefaultSchema); err != nil {
		t.Fatal(err)
	}
	for _, m := range []outbox.Message{{Topic: "t"}, {Topic: "t", DedupKey: "d"}} {
		caller := connect(t, url)
		tx := begin(t, caller)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		_, err := newPublisher(t, nil).Publish(ctx, tx, m)
		cancel()
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	// What was sent may still be worked on; the lock waits for it to end.
	tx := begin(t, conn)
	if _, err := tx.Exec(t.Context(), "lock table outbox.message, outbox.dedup in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	if n := value[int](t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.dedup)"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/storetest"
)

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Parallel()
		return newHarness(t, nil)
	})
}

// TestStoreConformsUnderHostileDefaults: nothing depends on the defaults of role and database.
func TestStoreConformsUnderHostileDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once more")
	}
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Parallel()
		return newHarness(t, []string{
			"default_transaction_isolation = 'serializable'",
			"default_transaction_read_only = on",
			"work_mem = '64kB'",
			"timezone = 'Asia/Kathmandu'",
			"plan_cache_mode = 'force_custom_plan'",
			"enable_indexscan = off",
		})
	})
}

// harness shows the Stores on one database to the conformance suite.
type harness struct {
	url   string
	pool  *pgxpool.Pool
	store *Store
	level pgx.TxIsoLevel // of the application's transactions
}

// newHarness makes a database with the given defaults.
func newHarness(t *testing.T, settings []string) *harness {
	t.Helper()
	url := migratedDatabase(t)
	conn := connect(t, url)
	name := pgx.Identifier{conn.Config().Database}.Sanitize()
	for _, s := range settings {
		exec(t, conn, "alter database "+name+" set "+s)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	store, err := New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(); pool.Close() })
	return &harness{url: url, pool: pool, store: store, level: pgx.ReadCommitted}
}

func (h *harness) Open(t testing.TB) outbox.Store { return newStore(t, h.url, nil) }

func (h *harness) Operator(t testing.TB) outbox.Operator { return newStore(t, h.url, nil) }

func (h *harness) OpenKeeping(t testing.TB, payload bool) outbox.Store {
	store := newStore(t, h.url, &Config{KeepDelivered: outbox.KeepForever, Archive: Archive{OmitPayload: !payload}, Logger: slog.New(slog.DiscardHandler)})
	if err := store.lookAfterPartitions(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	return store
}

func (h *harness) Archived(ctx context.Context) ([]storetest.Archived, error) {
	rows, err := h.pool.Query(ctx, `select id, coalesce(key, ''), coalesce(convert_from(payload, 'UTF8'), ''), outcome, coalesce(detail, ''),
		coalesce(actor, ''), coalesce(destination, ''), attempts, generation from outbox.archive order by seq, generation`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[storetest.Archived])
}

func (h *harness) Begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := h.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: h.level, AccessMode: pgx.ReadWrite})
	return suiteTx{tx, h.store}, err
}

// Advance moves all stored times into the past.
func (h *harness) Advance(ctx context.Context, d time.Duration) error {
	return pgx.BeginTxFunc(ctx, h.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		for table, columns := range map[string][]string{
			"relay":   {"lease_until", "seen_at"},
			"message": {"expires_at", "published_at"},
			"waiting": {"available_at", "expires_at", "published_at"},
			"dead":    {"expires_at", "published_at", "died_at"},
			"dedup":   {"expires_at"},
			"archive": {"ended_at"},
		} {
			for _, c := range columns {
				if _, err := tx.Exec(ctx, fmt.Sprintf("update outbox.%s set %s = %s - $1::interval", table, c, c), d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (h *harness) Counts(ctx context.Context) (c storetest.Counts, err error) {
	err = h.pool.QueryRow(ctx, `select (select count(*) from outbox.message), (select count(*) from outbox.waiting),
		(select count(*) from outbox.dead), (select coalesce(sum(cardinality(seqs)), 0) from outbox.claim),
		(select count(*) from outbox.claim)`).Scan(&c.Ready, &c.Waiting, &c.Dead, &c.Claimed, &c.Claims)
	return c, err
}

func (h *harness) Dead(ctx context.Context) ([]storetest.Dead, error) {
	rows, err := h.pool.Query(ctx, "select id, attempts, error_class, last_error, holds from outbox.dead order by seq")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[storetest.Dead])
}

func (h *harness) Features() storetest.Features {
	return storetest.Features{Notifications: true, OwnSettle: true, Archive: true}
}

// suiteTx is a transaction of an application.
type suiteTx struct {
	pgx.Tx
	store *Store
}

func (tx suiteTx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return tx.store.Publisher.Publish(ctx, tx.Tx, ms...)
}

func (tx suiteTx) Settle(ctx context.Context, d *outbox.Delivery) error {
	return tx.store.SettleTx(ctx, tx.Tx, d)
}

// TestStoreConformsStreaming: what the suite asks for does not depend on where candidates come from. Every store that
// is opened has the WAL engine; one of them streams, and the others stand by. make chaos runs all cases, other runs those
// of order.
func TestStoreConformsStreaming(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once more")
	}
	t.Parallel()
	var followed atomic.Int64
	t.Run("suite", func(t *testing.T) {
		for _, c := range storetest.Cases() {
			if c.Guarantee != storetest.OrderPerKey && os.Getenv("OUTBOX_TEST_CHAOS_MESSAGES") == "" {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.Run(t, &streamingHarness{newHarness(t, nil), &followed})
			})
		}
	})
	if n := followed.Load(); n == 0 {
		t.Error("no claim followed the stream")
	} else {
		t.Logf("%d claims followed the stream", n)
	}
}

type streamingHarness struct {
	*harness
	followed *atomic.Int64
}

func (h *streamingHarness) Open(t testing.TB) outbox.Store {
	s := newStore(t, h.url, &Config{Engine: EngineWAL})
	runStream(t, s)
	return &caughtUpStore{s, h.followed}
}

// caughtUpStore claims once the stream has brought what had been committed, as the suite expects of every claim.
type caughtUpStore struct {
	*Store
	followed *atomic.Int64
}

func (s *caughtUpStore) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	if err := s.catchUp(ctx); err != nil {
		return outbox.Batch{}, err
	}
	if r := s.relay(q.Relay); r != nil && r.lane(q.Destination).feedReport("").State == feedFollowing.String() {
		s.followed.Add(1)
	}
	return s.Store.Claim(ctx, q)
}

// catchUp waits until a message that is written now has come back by the stream, if this store streams.
func (s *Store) catchUp(ctx context.Context) error {
	s.stream.mu.Lock()
	beats := s.stream.beats
	s.stream.mu.Unlock()
	if beats == nil {
		return nil
	}
	content := beats.next()
	if errs := s.run(ctx, s.transaction(call{s.sql.streamBeat, []any{publicationName(s.cfg.Schema), content}, nil})); errs[0] != nil {
		return errs[0]
	}
	for beats.waits(content) && s.stream.live.Load() && ctx.Err() == nil {
		time.Sleep(100 * time.Microsecond)
	}
	return ctx.Err()
}

// waits reports whether a heartbeat has not come back.
func (b *streamBeats) waits(content string) bool {
	n, _ := strconv.ParseInt(strings.TrimPrefix(content, b.nonce), 10, 64)
	b.mu.Lock()
	defer b.mu.Unlock()
	_, open := b.open[n]
	return open
}

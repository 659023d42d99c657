package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
)

// testRelay is a relay of which the test makes every move.
type testRelay struct {
	store *Store
	info  outbox.RelayInfo
	known []outbox.Token
}

func newStore(t testing.TB, url string, cfg *Config) *Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	store, err := New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(); pool.Close() })
	return store
}

// newTestRelay registers a relay with one lane that takes the patterns.
func newTestRelay(t testing.TB, store *Store, patterns ...string) *testRelay {
	t.Helper()
	lane := outbox.LaneInfo{Destination: "lane"}
	for _, p := range patterns {
		lane.Topics = append(lane.Topics, outbox.TopicPattern{Pattern: p, In: true})
	}
	r := &testRelay{store: store, info: outbox.RelayInfo{
		ID: outbox.NewID(), Lease: time.Minute, Host: "test", Version: "test", Engine: "poll", Lanes: []outbox.LaneInfo{lane},
	}}
	r.beat(t)
	return r
}

func (r *testRelay) beat(t testing.TB) {
	t.Helper()
	if _, err := r.store.Beat(t.Context(), r.info, r.known); err != nil {
		t.Fatalf("beat: %v", err)
	}
	r.info.Beat++
}

func (r *testRelay) query(limit int) outbox.ClaimQuery {
	return outbox.ClaimQuery{Relay: r.info.ID, Destination: "lane", Token: outbox.NewID(),
		Limit: limit, Bytes: 64 << 20, Oversized: true}
}

// claim asks until a call brings something or there is nothing more.
func (r *testRelay) claim(t testing.TB, limit int) []*outbox.Delivery {
	t.Helper()
	for {
		q := r.query(limit)
		batch, err := r.store.Claim(t.Context(), q)
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		var ds []*outbox.Delivery
		for _, c := range batch.Claims {
			ds = append(ds, c.Deliveries...)
		}
		if len(ds) > 0 {
			r.known = append(r.known, q.Token)
			return ds
		}
		if !batch.More {
			return nil
		}
	}
}

func (r *testRelay) settle(t testing.TB, kind outbox.OutcomeKind, ds ...*outbox.Delivery) []outbox.Settled {
	t.Helper()
	os := make([]outbox.Outcome, len(ds))
	for i, d := range ds {
		os[i] = outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: kind, Attempts: d.Attempt, Class: "error", Text: "planned"}
	}
	settled, err := r.store.Settle(t.Context(), os)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return settled
}

// insert publishes n messages in one statement, in the order of their numbers, over that many keys.
func insert(t testing.TB, conn *pgx.Conn, topic string, n, keys int) {
	t.Helper()
	exec(t, conn, `insert into outbox.message (id, topic, key, payload)
		select gen_random_uuid(), $1, case when $3::int > 0 then 'k' || g % $3 end, convert_to(g::text, 'UTF8')
		from generate_series(1, $2::int) g order by g`, topic, n, keys)
}

func payloads(ds []*outbox.Delivery) string {
	s := ""
	for _, d := range ds {
		s += string(d.Payload) + " "
	}
	return s
}

func expire(t testing.TB, conn *pgx.Conn, r *testRelay) {
	t.Helper()
	exec(t, conn, "update outbox.relay set lease_until = clock_timestamp() - interval '1 second' where id = $1", r.info.ID)
}

func TestNewRefusesBadConfig(t *testing.T) {
	for _, cfg := range []Config{
		{Schema: "Outbox"}, {Migrate: "always"}, {SettleSync: "maybe"}, {ListenURL: "nats://x"}, {MaxPayload: -1}, {Notify: 9},
	} {
		if _, err := New(nil, &cfg); err == nil {
			t.Errorf("New accepted %+v", cfg)
		}
	}
}

func TestEveryStatementIsAccepted(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	sql, err := newStatements(DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []statement{sql.begin, sql.commit, sql.deadlines, sql.asyncCommit, sql.claim, sql.fetch, sql.sweep,
		sql.endFrozenClaim, sql.settleDelivered, sql.settle, sql.beat, sql.holders, sql.expireDedup, sql.notify,
		sql.redrive, sql.retry, sql.discard, sql.discardHeld, sql.pause, sql.resume} {
		described, err := conn.Prepare(t.Context(), s.name, s.sql)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if fmt.Sprint(described.ParamOIDs) != fmt.Sprint(s.params) && len(s.params) > 0 {
			t.Errorf("%s: parameter types are %v, declared as %v", s.name, described.ParamOIDs, s.params)
		}
	}
}

func TestClaimInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			url := migratedDatabase(t)
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			store, err := New(pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close(); pool.Close() })
			insert(t, connect(t, url), "a", 3, 0)
			relay := newTestRelay(t, store, ">")
			ds := relay.claim(t, 10)
			if len(ds) != 3 {
				t.Fatalf("claimed %d of 3", len(ds))
			}
			relay.settle(t, outbox.Retried, ds[0])
			relay.settle(t, outbox.Delivered, ds[1:]...)
			if _, err := store.Maintain(t.Context(), outbox.MaintainQuery{Limit: 10}); err != nil {
				t.Errorf("maintain: %v", err)
			}
		})
	}
}

func TestClaimRefusesRepeatableRead(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	tx, err := conn.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `select outbox.claim(gen_random_uuid(), 'lane', gen_random_uuid(), 1, 1, true, null,
		0, true, 1, false, '-infinity', 0, 500, '{}', '{}', '{}', 8, 0, 0, 0, 0, 0, '{}', false)`)
	if state, _ := sqlError(err); state != "55000" {
		t.Errorf("claim in REPEATABLE READ: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

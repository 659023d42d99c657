package pgstore

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// ownServer starts a server for one test, with an outbox in a database of it.
func ownServer(t *testing.T, settings map[string]string) (*pgdev.Server, string) {
	t.Helper()
	server := pgtest.Server(t, pgdev.Config{Settings: settings})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrateDatabase)
	if err != nil {
		t.Fatal(err)
	}
	return server, server.URL(name)
}

// TestStreamOnAServer changes and stops the server that a relay streams from.
func TestStreamOnAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	server, url := ownServer(t, nil)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	t.Run("a commit that is streamed before it is visible", func(t *testing.T) { testStreamedUnseen(t, url, conn, r) })
	t.Run("no WAL is kept", func(t *testing.T) { testNoWALKept(t, conn, r) })
	t.Run("fast shutdown", func(t *testing.T) {
		insert(t, conn, "a", 100, 0)
		r.claimAll(t, 50)
		begin := time.Now()
		if err := server.Stop(t.Context(), pgdev.Fast); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the server took %v to stop", took)
		}
	})
}

// testStreamedUnseen: the commit waits for a standby that is not there, so the WAL has it and no snapshot sees it.
func testStreamedUnseen(t *testing.T, url string, conn *pgx.Conn, r *testRelay) {
	setServer(t, conn, "synchronous_standby_names", "nobody")
	published := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, url)
		if err == nil {
			_, err = c.Exec(ctx, "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', 'unseen')")
			_ = c.Close(ctx)
		}
		published <- err
	}()
	await(t, "the stream has brought the message", func() bool { return r.lane().feedReport("").Buffered == 1 })
	for range 20 {
		if ds := r.claim(t, 10); ds != nil {
			t.Fatalf("claimed %s before it was visible", payloads(ds))
		}
	}
	if n := r.lane().feedReport("").Buffered; n != 1 {
		t.Errorf("the buffer holds %d messages: it was dropped", n)
	}
	select {
	case err := <-published:
		t.Fatalf("the commit did not wait: %v", err)
	default:
	}
	setServer(t, conn, "synchronous_standby_names", "")
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	ds := r.claimAll(t, 1)
	if payloads(ds) != "unseen " {
		t.Errorf("claimed %s", payloads(ds))
	}
	r.settle(t, outbox.Delivered, ds...)
}

// testNoWALKept: the outbox is idle, and others write. OUTBOX_TEST_IDLE is for how long at least.
func testNoWALKept(t *testing.T, conn *pgx.Conn, r *testRelay) {
	const written = 100 << 20
	idle := time.Duration(0)
	if v := os.Getenv("OUTBOX_TEST_IDLE"); v != "" {
		var err error
		if idle, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, conn, "create table busy (v text)")
	first := value[string](t, conn, "select pg_current_wal_lsn()::text")
	since := func() int64 {
		return value[int64](t, conn, "select pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::bigint", first)
	}
	begin := time.Now()
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	for since() < written || time.Since(begin) < idle {
		if idle > 0 {
			<-pace.C
			r.beat(t)
		}
		exec(t, conn, "insert into busy select repeat(md5(g::text), 30) from generate_series(1, 20000) g")
		exec(t, conn, "truncate busy")
		exec(t, conn, "checkpoint")
	}
	var kept int64
	await(t, "the slot holds less than a segment of WAL", func() bool {
		exec(t, conn, "checkpoint") // the server moves the slot on when it logs which transactions run
		kept = value[int64](t, conn, `select max(pg_wal_lsn_diff(pg_current_wal_lsn(), least(restart_lsn, confirmed_flush_lsn)))::bigint
			from pg_replication_slots`)
		return kept < 16<<20
	})
	t.Logf("of %d MiB of WAL in %v the slot holds %d bytes", since()>>20, time.Since(begin).Round(time.Second), kept)
}

func setServer(t testing.TB, conn *pgx.Conn, name, value string) {
	t.Helper()
	exec(t, conn, "alter system set "+name+" = '"+value+"'")
	exec(t, conn, "select pg_reload_conf()")
}

// TestStreamNeeds: whatever the server lacks, the relay says what to do and polls; when it is there, it streams.
func TestStreamNeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	server, url := ownServer(t, map[string]string{"wal_level": "replica", "max_wal_senders": "1", "max_replication_slots": "1"})
	conn := connect(t, url)
	log := &logText{}
	r := newTestRelay(t, newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff, Logger: slog.New(slog.NewTextHandler(log, nil))}), ">")
	runStream(t, r.store)
	polls := func(t *testing.T, says string) {
		t.Helper()
		await(t, "the relay says "+says, func() bool { return strings.Contains(log.text(), says) })
		insert(t, conn, "a", 3, 0)
		ds := r.claimAll(t, 3)
		r.settle(t, outbox.Delivered, ds...)
		if len(ds) != 3 || r.feedState() != feedShut {
			t.Errorf("claimed %d of 3, and the lane is %v", len(ds), r.feedState())
		}
	}
	polls(t, adviceWALLevel)
	wantFindings(t, r.store, "wal level")

	exec(t, conn, "alter system set wal_level = 'logical'")
	if err := server.Stop(t.Context(), pgdev.Fast); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sender := replicationConn(t, url) // takes the only sender
	conn = connect(t, url)
	await(t, "the relay beats again", func() bool {
		_, err := r.store.Beat(t.Context(), r.info, r.known)
		return err == nil
	})
	r.info.Beat++
	r.store.pool.Reset()
	polls(t, "no WAL sender is free: "+adviceCheck)
	wantFindings(t, r.store, "wal connection")

	exec(t, conn, "select pg_create_logical_replication_slot('other', 'pgoutput')")
	_ = sender.Close(t.Context())
	polls(t, "no replication slot is free: "+adviceCheck)
	wantFindings(t, r.store, "wal slots")
	t.Run("rights", func(t *testing.T) { testStreamRights(t, url, conn) })
	exec(t, conn, "select pg_drop_replication_slot('other')")
	await(t, "the lane follows", func() bool { r.claim(t, 1); return r.feedState() == feedFollowing })
}

// testStreamRights: a relay whose role is neither the owner of the table nor one that replicates.
func testStreamRights(t *testing.T, url string, conn *pgx.Conn) {
	exec(t, conn, `drop publication outbox_outbox; create role app login; grant usage on schema outbox to app;
		grant all on all tables in schema outbox to app; grant all on all sequences in schema outbox to app; grant execute on all functions in schema outbox to app`)
	store := newStore(t, strings.Replace(url, "postgres@", "app@", 1), &Config{Engine: EngineWAL})
	says := func(advice string) {
		t.Helper()
		await(t, "the relay says "+advice, func() bool { // the other one takes the only sender now and then
			err := store.stream.once(t.Context(), func() {})
			return err != nil && strings.Contains(err.Error(), advice)
		})
	}
	says(advicePublication(DefaultSchema))
	wantFindings(t, store, "publication", "wal connection", "wal slots") // it may not connect, for whichever reason
	exec(t, conn, advicePublication(DefaultSchema))
	says(store.adviceReplication())
	exec(t, conn, store.adviceReplication())
	says("no replication slot is free")
}

// wantFindings: check finds fault with these things. (A relay that tries to stream meanwhile may have the only sender.)
func wantFindings(t *testing.T, store *Store, checks ...string) {
	t.Helper()
	found := store.Check(t.Context())
	for _, check := range checks {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Check == check && !f.OK && f.Fix != "" }) {
			t.Errorf("check does not find fault with %s: %+v", check, found)
		}
	}
}

func replicationConn(t *testing.T, url string) *pgconn.PgConn {
	t.Helper()
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// logText is a log that is read while it is written.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

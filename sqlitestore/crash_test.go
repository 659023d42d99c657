package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/internal/history/record"
)

func TestMain(m *testing.M) {
	os.Exit(crashtest.Main(m, map[string]crashtest.Role{"publisher": runPublisher, "relay": runRelay, "operator": runOperator}))
}

// crashPlan is what a test wants of a process.
type crashPlan struct {
	Path  string
	Seed  uint64
	Work  time.Duration // of each delivery
	Pause time.Duration // after each transaction
	Keep  time.Duration // what has ended
	Verb  string        // of an operator
}

const crashSetting = "OUTBOX_TEST_SQLITE"

func (p crashPlan) env() []string {
	text, _ := json.Marshal(p) // texts and numbers
	return []string{crashSetting + "=" + string(text)}
}

// openDurably is how docs/sqlite.md says it: with synchronous=FULL.
func openDurably() (p crashPlan, db *sql.DB, store *Store, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(crashSetting)), &p); err != nil {
		return p, nil, nil, err
	}
	db, err = sql.Open("sqlite", "file:"+p.Path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return p, nil, nil, err
	}
	store, err = New(db, &Config{KeepDelivered: p.Keep, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	return p, db, store, err
}

// runPublisher commits small transactions until it is killed; some are rolled back.
func runPublisher(ctx context.Context, c *crashtest.Child) error {
	p, db, store, err := openDurably()
	if err != nil {
		return err
	}
	defer db.Close()
	random := rand.New(rand.NewPCG(p.Seed, 0))
	for n := 0; ctx.Err() == nil; n++ {
		if n == 5 {
			if err := c.Announce("publishes"); err != nil {
				return err
			}
		}
		if err := publishSome(ctx, c.Log, store, random); err != nil {
			return err
		}
		time.Sleep(p.Pause)
	}
	return nil
}

var errPlanned = errors.New("as planned")

func publishSome(ctx context.Context, log *history.Log, store *Store, random *rand.Rand) error {
	ms := make([]outbox.Message, 1+random.IntN(4))
	for i := range ms {
		ms[i] = outbox.Message{Topic: "crash.topic", Key: fmt.Sprint("key ", random.IntN(8)), Payload: fmt.Append(nil, random.Uint64())}
	}
	tell := func(kind history.Kind) error {
		events := make([]history.Event, len(ms))
		for i, m := range ms {
			events[i] = history.Event{Kind: kind, Message: m.ID.String()}
			if kind == history.Publishing {
				events[i].Topic, events[i].Key, events[i].Payload = m.Topic, m.Key, history.Hash(m.Payload)
			}
		}
		return log.Append(events...)
	}
	err := store.InTx(ctx, func(tx *sql.Tx) error {
		receipts, err := store.Publish(ctx, tx, ms...)
		if err != nil {
			return err
		}
		for i, r := range receipts {
			ms[i].ID = r.ID
		}
		if err := tell(history.Publishing); err != nil {
			return err
		}
		if random.IntN(10) == 0 {
			return errPlanned
		}
		return nil
	})
	switch {
	case errors.Is(err, errPlanned):
		return tell(history.RolledBack)
	case err != nil:
		return err
	}
	return tell(history.Committed)
}

func runRelay(ctx context.Context, c *crashtest.Child) error {
	p, db, store, err := openDurably()
	if err != nil {
		return err
	}
	defer db.Close()
	sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		time.Sleep(p.Work)
		if d.Attempt == 1 && d.Seq%40 == 0 {
			return errPlanned
		}
		return nil
	})
	r, err := outbox.NewRelay(record.NewStore(store, c.Log),
		[]outbox.Route{{Name: "lane", Topics: []string{">"}, Sink: record.NewSink(sink, "lane", c.Log), Slots: 30}},
		&outbox.Config{Lease: time.Second, Logger: store.log, Retry: outbox.RetryPolicy{Base: 50 * time.Millisecond, Max: time.Second}})
	if err != nil {
		return err
	}
	go func() {
		<-r.Ready()
		_ = c.Announce("ready")
	}()
	return r.Run(ctx)
}

// TestKilledProcesses: publishers and relays, several processes on one file with synchronous=FULL, are killed at random
// moments. What was committed is delivered, in order, and nothing else; no attempt is spent. What has ended is in the archive,
// once: a message is in one place at any time.
func TestKilledProcesses(t *testing.T) {
	kills := 3
	if testing.Short() {
		kills = 2
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h := crashtest.New(t)
	p := crashPlan{Path: migratedFile(t), Work: time.Millisecond, Pause: 10 * time.Millisecond, Keep: outbox.KeepForever}
	start := func(role, line string) *crashtest.Process {
		p.Seed = random.Uint64()
		proc := h.Start(role, crashtest.Options{Env: p.env()})
		proc.Await(line)
		return proc
	}
	db := openFile(t, p.Path)
	publishers := []*crashtest.Process{start("publisher", "publishes"), start("publisher", "publishes")}
	relays := []*crashtest.Process{start("relay", "ready"), start("relay", "ready")}
	for i := range kills {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // any moment
		publishers[i%2].Kill()
		publishers[i%2] = start("publisher", "publishes")
		until(t, "messages are in flight", func() bool {
			return count(t, db, "select count(*) from outbox_claim where relay is not null") > 0
		})
		relays[i%2].Kill()
		relays[i%2] = start("relay", "ready")
	}
	for _, proc := range publishers {
		proc.Kill()
	}
	until(t, "everything is delivered", func() bool {
		return count(t, db, "select (select count(*) from outbox_message) + (select count(*) from outbox_waiting)") == 0
	})
	for _, proc := range relays {
		proc.Terminate()
	}
	counts := h.Check(history.Options{})
	t.Logf("%+v", counts)
	if counts.Committed < 20*kills || counts.Deaths < 2*kills || counts.RolledBack == 0 {
		t.Errorf("the test did not do what it was meant to: %+v", counts)
	}
	if n := count(t, db, "select count(*) from outbox_dead"); n != 0 {
		t.Errorf("%d messages are dead: the death of a relay has cost attempts", n)
	}
	checkArchive(t, db, h.History())
	if state := text(t, db, "pragma integrity_check"); state != "ok" {
		t.Errorf("the file is damaged: %s", state)
	}
}

// checkArchive demands that every committed message is kept as delivered, once, and nothing that was not published.
func checkArchive(t *testing.T, db *sql.DB, events []history.Event) {
	t.Helper()
	archived := map[string]int{}
	rows, err := db.QueryContext(t.Context(), "select id from outbox_archive where outcome = 'delivered' and generation = 0 and payload is not null")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		archived[id]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	published, committed, missing := map[string]bool{}, 0, 0
	for _, e := range events {
		switch e.Kind {
		case history.Publishing:
			published[e.Message] = true
		case history.Committed:
			if committed++; archived[e.Message] != 1 {
				missing++
			}
		}
	}
	for id, n := range archived {
		if n != 1 || !published[id] {
			t.Errorf("message %s is archived %d times, published: %v", id, n, published[id])
		}
	}
	if all := count(t, db, "select count(*) from outbox_archive"); missing > 0 || committed == 0 || all != len(archived) {
		t.Errorf("%d of %d committed messages are not in the archive as delivered; it has %d rows", missing, committed, all)
	}
}

// runOperator makes a change, and says when it has begun.
func runOperator(ctx context.Context, c *crashtest.Child) error {
	p, db, store, err := openDurably()
	if err != nil {
		return err
	}
	defer db.Close()
	begun := false
	change := outbox.Change{Filter: outbox.Filter{Topic: "a"}, Rate: 2000, Actor: "ann", Reason: "test", Progress: func(outbox.ChangeReport) {
		if !begun {
			begun = true
			_ = c.Announce("has begun")
		}
	}}
	_, err = store.operate(ctx, p.Verb, change)
	return err
}

// operate is the verb's method.
func (s *Store) operate(ctx context.Context, verb string, c outbox.Change) (outbox.ChangeReport, error) {
	switch verb {
	case "redrive":
		return s.Redrive(ctx, c)
	case "discard":
		return s.Discard(ctx, c)
	case "purge":
		return s.Purge(ctx, c)
	}
	if c.Continue == 0 {
		c.Destination = "d"
	}
	return s.Replay(ctx, c)
}

// TestKilledOperators: a change that is killed has done what its operation says, and goes on from there: each message once.
func TestKilledOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes for seconds")
	}
	const messages = 3000
	dead := `insert into outbox_dead (seq, id, topic, key, payload, headers, published_at, died_at)
		select seq, id, topic, key, x'', headers, published_at, ended_at from outbox_archive; delete from outbox_archive`
	for verb, c := range map[string]struct{ setUp, changed string }{
		"purge":   {"", "select ?1 - count(*) from outbox_archive"},
		"replay":  {"update outbox_archive set outcome = 'delivered'", "select count(*) from outbox_waiting where generation = 1"},
		"redrive": {dead, "select count(*) from outbox_waiting where generation = 1"},
		"discard": {dead + "; insert into outbox_setting values ('archive', 'full')", "select count(*) from outbox_archive where outcome = 'discarded' and actor = 'ann'"},
	} {
		t.Run(verb, func(t *testing.T) {
			h := crashtest.New(t)
			p := crashPlan{Path: migratedFile(t), Verb: verb}
			db := openFile(t, p.Path)
			s := newStore(t, db, nil)
			insertArchived(t, db, "a", messages, time.Hour)
			if c.setUp != "" {
				execSQL(t, db, c.setUp)
			}
			changed := func() int {
				var n int
				if err := db.QueryRowContext(t.Context(), c.changed, messages).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			proc := h.Start("operator", crashtest.Options{Env: p.env()})
			proc.Await("has begun")
			time.Sleep(rand.N(200 * time.Millisecond)) // any moment
			proc.Kill()
			list, err := s.Operations(t.Context(), 0)
			if err != nil || len(list) != 1 || list[0].State != "running" || list[0].Actor != "ann" || list[0].Reason != "test" {
				t.Fatalf("operations: %+v, %v", list, err)
			}
			if n := changed(); n == 0 || n == messages || list[0].Changed != int64(n) {
				t.Errorf("the operation says that it has changed %d, and there are %d", list[0].Changed, n)
			}
			report, err := s.operate(t.Context(), verb, outbox.Change{Continue: list[0].ID, Rate: 1_000_000})
			if n := changed(); err != nil || report.Changed != messages || n != messages || report.More {
				t.Errorf("it went on: %+v, %v; %d are changed", report, err, n)
			}
			if state := text(t, db, "pragma integrity_check"); state != "ok" {
				t.Errorf("the file is damaged: %s", state)
			}
		})
	}
}

func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func text(t testing.TB, db *sql.DB, query string, args ...any) (s string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

// until polls a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// lockedBuffer is a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}

// keepingStore keeps what it ends for a day.
func keepingStore(t testing.TB, db *sql.DB) (*Store, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	return newStore(t, db, &Config{KeepDelivered: 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))}), log
}

func execSQL(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// insertArchived inserts n messages of a topic that have ended some time ago; every third was dropped. They have seqs of their own.
func insertArchived(t testing.TB, db *sql.DB, topic string, n int, age time.Duration) {
	t.Helper()
	execSQL(t, db, `with recursive g (i) as (select 1 union all select i + 1 from g where i < ?2)
		insert into outbox_archive (seq, generation, id, topic, key, outcome, ended_at, attempts, destination, published_at, headers, payload)
		select (select seq from outbox_sequence) + i, 0, printf('00000000-0000-4000-8000-%012d', (select seq from outbox_sequence) + i), ?1, 'k' || i,
		    case when i % 3 = 0 then 'dropped' else 'delivered' end, (select now from outbox_clock) - ?3, 1, 'd', (select now from outbox_clock) - ?3, '{"h":"v"}', x'78'
		from g`, topic, n, age.Milliseconds())
	execSQL(t, db, "update outbox_sequence set seq = seq + ?1", n)
}

func TestKeepIsRefused(t *testing.T) {
	_, err := New(nil, &Config{KeepDelivered: time.Second})
	var refused *outbox.FieldError
	if !errors.As(err, &refused) || refused.Field != "KeepDelivered" || !strings.Contains(refused.Bound, "1m") {
		t.Errorf("a second: %v", err)
	}
}

// TestArchiveRefuses: what the archive does not take is settled, or discarded, all the same, counted, and told once.
func TestArchiveRefuses(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s, log := keepingStore(t, db)
	r := newTestRelay(t, s, lease)
	settle := func(topic string, kind outbox.OutcomeKind) {
		t.Helper()
		publish(t, s, outbox.Message{Topic: topic})
		r.settle(t, kind, r.claim(t, 1)...)
	}
	kept := func(want int, notKept int64) {
		t.Helper()
		n, left := count(t, db, "select count(*) from outbox_archive"), count(t, db, "select count(*) from outbox_message")
		if n != want || left != 0 || s.NotKept() != notKept {
			t.Errorf("kept %d, want %d; not kept %d, want %d; %d unsettled", n, want, s.NotKept(), notKept, left)
		}
	}
	settle("fine", outbox.Delivered)
	kept(1, 0)
	execSQL(t, db, `create trigger ours before insert on outbox_archive when new.topic = 'poison' begin select raise(abort, 'not here'); end`)
	settle("poison", outbox.Delivered)
	settle("poison", outbox.Dropped)
	settle("poison", outbox.Expired)
	publish(t, s, outbox.Message{Topic: "poison"})
	if report, err := s.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}, Reason: "test"}); err != nil || report.Changed != 1 {
		t.Errorf("discard: %+v, %v", report, err)
	}
	kept(1, 4)
	settle("fine", outbox.Dropped)
	kept(2, 4)
	if refused, again := log.count("refuses messages"), log.count("keeps messages again"); refused != 1 || again != 1 || log.count("not here") != 1 {
		t.Errorf("told %d times of the refusal, %d times of its end: %s", refused, again, log.buf.String())
	}
}

// TestDiskFull: when the file has come to its limit, publishing fails and settling goes on, without keeping; nothing is lost or
// damaged, and there is room again for what is published when messages have ended.
func TestDiskFull(t *testing.T) {
	path := migratedFile(t)
	db := openFile(t, path)
	db.SetMaxOpenConns(1) // the limit is the connection's
	s, log := keepingStore(t, db)
	r := newTestRelay(t, s, lease)
	const size = 20_000
	message := outbox.Message{Topic: "a", Key: "k", Payload: make([]byte, size)}
	execSQL(t, db, fmt.Sprintf("pragma max_page_count = %d", count(t, db, "pragma page_count")+60))
	committed := 0
	fill := func() (err error) {
		for err == nil {
			err = s.InTx(t.Context(), func(tx *sql.Tx) error {
				_, err := s.Publish(t.Context(), tx, message)
				return err
			})
			if err == nil {
				committed++
			}
		}
		return err
	}
	if err := fill(); !isFull(err) || committed < 5 {
		t.Fatalf("%d messages were committed, then: %v", committed, err)
	}
	if n := count(t, db, "select count(*) from outbox_message"); n != committed {
		t.Errorf("%d messages, %d were committed", n, committed)
	}
	ds := r.claim(t, committed)
	if len(ds) != committed {
		t.Fatalf("claimed %d of %d", len(ds), committed)
	}
	for i, d := range ds {
		r.settle(t, outbox.Delivered, d)
		if i == 0 && (count(t, db, "select count(*) from outbox_archive") != 0 || s.NotKept() != 1 || log.count("refuses messages") != 1) {
			t.Errorf("%d not kept, log %s", s.NotKept(), log.buf.String())
		}
	}
	if report, err := s.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}}); err != nil || report.Changed != int64(committed)-s.NotKept() {
		t.Errorf("purge: %+v, %v", report, err)
	}
	before := committed
	if err := fill(); !isFull(err) || committed == before {
		t.Errorf("no room was left where %d messages had been: %v", before, err)
	}
	if state := text(t, db, "pragma integrity_check"); state != "ok" {
		t.Errorf("the file is damaged: %s", state)
	}
}

// TestKeepOffCostsNothing: who keeps nothing never looks at the archive.
func TestKeepOffCostsNothing(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	r := newTestRelay(t, s, lease)
	execSQL(t, db, "drop table outbox_archive")
	publish(t, s, outbox.Message{Topic: "a"}, outbox.Message{Topic: "a", Key: "k"})
	r.settle(t, outbox.Delivered, r.claim(t, 2)...)
	if _, err := s.Maintain(t.Context(), outbox.MaintainQuery{Limit: 10}); err != nil {
		t.Errorf("maintain: %v", err)
	}
	if keeping, _ := keepingStore(t, db); keeping.Prepare(t.Context()) == nil {
		if _, err := keeping.Maintain(t.Context(), outbox.MaintainQuery{Limit: 10}); err == nil {
			t.Error("a store that keeps does not miss the archive")
		}
	}
}

// TestExpires: what has been kept long enough goes, in batches, and nothing else.
func TestExpires(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s, _ := keepingStore(t, db)
	for day := range 5 {
		insertArchived(t, db, "a", 300, time.Duration(day)*24*time.Hour+time.Hour)
	}
	maintain := func(s *Store, now time.Time, want int64, left int) {
		t.Helper()
		var expired int64
		for more := true; more; {
			report, err := s.Maintain(t.Context(), outbox.MaintainQuery{Limit: 70, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			expired, more = expired+report.ArchiveExpired, report.More
		}
		if n := count(t, db, "select count(*) from outbox_archive"); expired != want || n != left {
			t.Errorf("%d expired, want %d; %d are left, want %d", expired, want, n, left)
		}
	}
	maintain(newStore(t, db, nil), time.Time{}, 0, 1500)
	maintain(newStore(t, db, &Config{KeepDelivered: outbox.KeepForever}), time.Now().Add(1000*time.Hour), 0, 1500)
	maintain(s, time.Time{}, 1200, 300)
	maintain(s, time.Now().Add(22*time.Hour), 0, 300)
	maintain(s, time.Now().Add(24*time.Hour), 300, 0)
}

// TestExpiryGivesWay: others write between the batches.
func TestExpiryGivesWay(t *testing.T) {
	path := migratedFile(t)
	db := openFile(t, path)
	s, _ := keepingStore(t, db)
	insertArchived(t, db, "a", 20_000, 48*time.Hour)
	other := newStore(t, openFile(t, path), nil)
	ended := make(chan int64, 1)
	go func() {
		report, err := s.Maintain(t.Context(), outbox.MaintainQuery{Limit: 20})
		if err != nil {
			t.Error(err)
		}
		ended <- report.ArchiveExpired
	}()
	published := 0
	for {
		select {
		case expired := <-ended:
			if published < 10 || expired < 20 || expired%20 != 0 && expired != 20_000 {
				t.Errorf("%d expired while %d were published", expired, published)
			}
			return
		default:
		}
		publish(t, other, outbox.Message{Topic: "a"})
		published++
	}
}

// TestKeepingDiffers: relays that keep differently are told apart, as in PostgreSQL; discards are kept as long as one keeps.
func TestKeepingDiffers(t *testing.T) {
	db := openFile(t, migratedFile(t))
	off := newStore(t, db, nil)
	on, _ := keepingStore(t, db)
	newTestRelay(t, on, lease)
	same, err := off.Status(t.Context())
	if err != nil || len(same.MixedSettings()) != 0 || same.Relays[0].Settings != "rules keep 24h0m0s true" {
		t.Errorf("one relay: %+v, %v", same.Relays, err)
	}
	newTestRelay(t, off, lease)
	mixed, err := off.Status(t.Context())
	if err != nil || !slices.Equal(mixed.MixedSettings(), []string{"d"}) {
		t.Errorf("two relays: %q, %v", mixed.MixedSettings(), err)
	}
	if mode := text(t, db, "select value from outbox_setting where name = 'archive'"); mode != keepNothing {
		t.Errorf("the last one keeps nothing and says %s", mode)
	}
	if _, err := on.Maintain(t.Context(), outbox.MaintainQuery{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if mode := text(t, db, "select value from outbox_setting where name = 'archive'"); mode != keepFull {
		t.Errorf("discards are kept: %s", mode)
	}
}

// TestPurgeCounts: what a purge reports is what SQL counts.
func TestPurgeCounts(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	insertArchived(t, db, "old.one", 30, 72*time.Hour)
	insertArchived(t, db, "old.two", 30, 48*time.Hour)
	insertArchived(t, db, "new", 30, time.Minute)
	// One message has ended three times.
	execSQL(t, db, `insert into outbox_archive (seq, generation, id, topic, key, outcome, ended_at, attempts, published_at, headers)
		select a.seq, g.value, a.id, a.topic, a.key, 'delivered', a.ended_at, 1, a.published_at, a.headers
		from outbox_archive a, json_each('[1,2]') g where a.key = 'k1' and a.topic = 'old.one'`)
	ended := []outbox.State{outbox.StateDelivered, outbox.StateDropped, outbox.StateExpired, outbox.StateDiscarded}
	purge := func(f outbox.Filter, where string) {
		t.Helper()
		all, want := count(t, db, "select count(*) from outbox_archive"), count(t, db, "select count(*) from outbox_archive where "+where)
		dry, err := s.Purge(t.Context(), outbox.Change{Filter: f, DryRun: true})
		if err != nil || dry.Matched != int64(want) {
			t.Errorf("%+v: a dry run finds %+v, %v; SQL counted %d", f, dry, err, want)
		}
		report, err := s.Purge(t.Context(), outbox.Change{Filter: f, Actor: "ann", Reason: "room"})
		if err != nil || report.Matched != int64(want) || report.Changed != int64(want) || want == 0 || report.More {
			t.Errorf("%+v: %+v, %v; SQL counted %d", f, report, err, want)
		}
		if left := count(t, db, "select count(*) from outbox_archive"); left != all-want {
			t.Errorf("%+v: %d are left of %d, SQL counted %d", f, left, all, want)
		}
		if n := count(t, db, "select changed from outbox_operation where id = ? and state = 'done' and actor = 'ann' and reason = 'room'", report.Operation); n != want {
			t.Errorf("%d are recorded, want %d", n, want)
		}
	}
	purge(outbox.Filter{States: ended, Topic: "old.*", Key: "k7"}, "topic like 'old.%' and key = 'k7'")
	purge(outbox.Filter{States: []outbox.State{outbox.StateDropped}, OlderThan: 60 * time.Hour}, "topic = 'old.one' and outcome = 'dropped'")
	purge(outbox.Filter{States: ended, NewerThan: time.Hour}, "topic = 'new'")
	id, err := outbox.ParseID(text(t, db, "select id from outbox_archive where topic = 'old.one' and key = 'k1' limit 1"))
	if err != nil {
		t.Fatal(err)
	}
	purge(outbox.Filter{States: ended, IDs: []outbox.ID{id}}, "topic = 'old.one' and key = 'k1'")
	purge(outbox.Filter{States: ended}, "true")
}

// TestChangesGiveWay: an operation that finds little looks at ten thousand messages in a transaction at most.
func TestChangesGiveWay(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	insertArchived(t, db, "a", 25_000, time.Hour)
	insertArchived(t, db, "b", 1, time.Hour)
	steps := 0
	report, err := s.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{States: []outbox.State{outbox.StateDelivered}, Topic: "b"},
		Progress: func(outbox.ChangeReport) { steps++ }})
	if err != nil || report.Changed != 1 || steps < 3 {
		t.Errorf("%+v in %d steps, %v", report, steps, err)
	}
}

// TestOperationsGoOn: a purge and a replay that are stopped say so, and go on where they were, once each.
func TestOperationsGoOn(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	const n = 1300
	insertArchived(t, db, "a", n, time.Hour)
	for _, verb := range []string{"replay", "purge"} {
		ctx, stop := context.WithCancel(t.Context())
		change := outbox.Change{Filter: outbox.Filter{Topic: "a"}, Progress: func(outbox.ChangeReport) { stop() }}
		do := s.Purge
		if verb == "replay" {
			do, change.Destination = s.Replay, "d"
			change.States = []outbox.State{outbox.StateDelivered, outbox.StateDropped}
		}
		report, err := do(ctx, change)
		if !errors.Is(err, context.Canceled) || !report.More || report.Changed != changeBatch {
			t.Fatalf("%s: %+v, %v", verb, report, err)
		}
		open, err := s.Operations(t.Context(), 0)
		if err != nil || open[0].State != "running" || open[0].Release() != fmt.Sprintf("outbox %s --continue %d", verb, report.Operation) {
			t.Errorf("%s: %+v, %v", verb, open, err)
		}
		if report, err = do(t.Context(), outbox.Change{Continue: report.Operation}); err != nil || report.Changed != n || report.More {
			t.Errorf("%s goes on: %+v, %v", verb, report, err)
		}
		var wrong *outbox.FieldError
		if _, err := s.Redrive(t.Context(), outbox.Change{Continue: report.Operation}); !errors.As(err, &wrong) {
			t.Errorf("%s goes on as a redrive: %v", verb, err)
		}
	}
	if waiting, left := count(t, db, "select count(*) from outbox_waiting where generation = 1 and destination = 'd'"), count(t, db, "select count(*) from outbox_archive"); waiting != n || left != 0 {
		t.Errorf("%d wait, %d are archived", waiting, left)
	}
}

// TestReplayOneByOne: the generations of a message are one message, also where batches part them.
func TestReplayOneByOne(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	insertArchived(t, db, "a", 2, time.Hour)
	execSQL(t, db, `insert into outbox_archive (seq, generation, id, topic, outcome, ended_at, attempts, published_at, headers, payload)
		select seq, 4, id, topic, 'delivered', ended_at, 1, published_at, headers, cast('last' as blob) from outbox_archive where key = 'k1'`)
	report, err := s.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: "a"}, Destination: "d", Rate: 10})
	if err != nil || report.Matched != 2 || report.Changed != 2 || report.Held != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if got := text(t, db, "select group_concat(generation || ' ' || cast(payload as text), ', ' order by seq) from outbox_waiting"); got != "5 last, 1 x" {
		t.Errorf("replayed: %s", got)
	}
}

// TestReplayedElsewhereCostsNothing: what is replayed to one destination is walked over by the lanes of others once.
func TestReplayedElsewhereCostsNothing(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	insertArchived(t, db, "a", 4000, time.Hour)
	r := newTestRelay(t, s, lease)
	report, err := s.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: "a"}, Destination: "elsewhere"})
	if err != nil || report.Changed == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	for b := r.batch(t, 100); b.More; b = r.batch(t, 100) {
		if len(b.Claims) != 0 {
			t.Fatalf("claimed %+v", b.Claims)
		}
	}
	publish(t, s, outbox.Message{Topic: "a", Payload: []byte("ours"), Delay: time.Millisecond})
	step(t, db, time.Second)
	if b := r.batch(t, 100); len(b.Claims) != 1 || string(b.Claims[0].Deliveries[0].Payload) != "ours" {
		t.Errorf("not found by one claim: %+v", b)
	}
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// TestDiscardRacesClaims: relays claim, deliver, fail, lose their lease and settle late, while operators discard by id
// and by key. Every message is delivered or discarded, exactly once.
func TestDiscardRacesClaims(t *testing.T) {
	t.Parallel()
	const messages, keys, relays, operators = 2000, 40, 4, 2
	url := migratedDatabase(t)
	conn := connect(t, url)
	insert(t, conn, "a", messages, keys)
	ids := values[outbox.ID](t, conn, "select id from outbox.message order by random()")
	h := &hammer{url: url, store: newStore(t, url, nil), times: map[outbox.ID]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var claiming, discarding sync.WaitGroup
	empty := make(chan struct{})
	for range relays {
		claiming.Go(func() { h.fail(h.relay(ctx, empty)) })
	}
	for n := range operators {
		discarding.Go(func() { h.fail(h.operate(ctx, ids[n*messages/(2*operators):(n+1)*messages/(2*operators)])) })
	}
	discarding.Wait()
	for value[int](t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting)") > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	close(empty)
	claiming.Wait()
	if err := errors.Join(h.errs...); err != nil {
		t.Fatal(err)
	}
	for id, n := range h.times {
		if n != 1 {
			t.Errorf("message %s was settled as delivered %d times", id, n)
		}
	}
	if len(h.times)+h.discarded != messages {
		t.Errorf("%d delivered and %d discarded of %d", len(h.times), h.discarded, messages)
	}
	if h.discarded == 0 || len(h.times) == 0 || h.lapses == 0 {
		t.Errorf("no race: %d delivered, %d discarded, %d lapses", len(h.times), h.discarded, h.lapses)
	}
	counted := value[int](t, conn, "select sum((counts ->> 'changed')::int) from outbox.operation")
	if counted != h.discarded {
		t.Errorf("%d discarded, %d recorded", h.discarded, counted)
	}
	t.Logf("%d delivered, %d discarded, %d lapses", len(h.times), h.discarded, h.lapses)
}

// hammer counts what became of messages.
type hammer struct {
	url   string
	store *Store

	mu                sync.Mutex
	times             map[outbox.ID]int // settled as delivered
	discarded, lapses int
	errs              []error
}

func (h *hammer) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// relay claims and settles until there is nothing, as one relay after another.
func (h *hammer) relay(ctx context.Context, empty <-chan struct{}) error {
	conn, err := pgx.Connect(ctx, h.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		select {
		case <-empty:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute, Host: "test", Version: "test", Engine: "poll",
			Lanes: []outbox.LaneInfo{{Destination: "lane", Topics: outbox.TopicSet{{Pattern: ">", In: true}}}}}
		if _, err := h.store.Beat(ctx, info, nil); err != nil {
			return err
		}
		if err := h.live(ctx, info.ID); err != nil {
			return err
		}
		// It dies with what it holds, and comes late with it.
		late, err := h.claim(ctx, info.ID)
		if err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "update outbox.relay set lease_until = clock_timestamp() - interval '1 second' where id = $1", info.ID); err != nil {
			return err
		}
		h.mu.Lock()
		h.lapses += len(late)
		h.mu.Unlock()
		if err := h.settle(ctx, late); err != nil {
			return err
		}
	}
}

func (h *hammer) live(ctx context.Context, id outbox.ID) error {
	for range 5 {
		ds, err := h.claim(ctx, id)
		if err != nil {
			return err
		}
		if err := h.settle(ctx, ds); err != nil {
			return err
		}
	}
	return nil
}

func (h *hammer) claim(ctx context.Context, id outbox.ID) (ds []*outbox.Delivery, err error) {
	batch, err := h.store.Claim(ctx, outbox.ClaimQuery{Relay: id, Destination: "lane", Token: outbox.NewID(), Limit: 1 + rand.IntN(20), Bytes: 1 << 20})
	if errors.Is(err, outbox.ErrLeaseLost) {
		return nil, nil
	}
	for _, c := range batch.Claims {
		ds = append(ds, c.Deliveries...)
	}
	return ds, err
}

// settle delivers most and fails some, and counts what took effect.
func (h *hammer) settle(ctx context.Context, ds []*outbox.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	os := make([]outbox.Outcome, len(ds))
	for i, d := range ds {
		kind := []outbox.OutcomeKind{outbox.Delivered, outbox.Delivered, outbox.Delivered, outbox.Retried, outbox.Unlisted, outbox.GivenBack}[rand.IntN(6)]
		os[i] = outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: kind, Attempts: d.Attempt, Class: "error", Text: "planned"}
	}
	answers, err := h.store.Settle(ctx, os)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range answers {
		if a == outbox.SettledNow && os[i].Kind == outbox.Delivered {
			h.times[ds[i].ID]++
		}
	}
	return nil
}

// operate discards some of the messages, half of them patiently.
func (h *hammer) operate(ctx context.Context, ids []outbox.ID) error {
	for len(ids) > 0 {
		n := min(1+rand.IntN(10), len(ids))
		c := outbox.Change{Filter: outbox.Filter{IDs: ids[:n]}, Reason: "test"}
		ids = ids[n:]
		switch rand.IntN(4) {
		case 0:
			c.Wait = 20 * time.Millisecond
		case 1:
			c.Filter = outbox.Filter{Key: fmt.Sprint("k", rand.IntN(40)), Limit: 3}
		}
		r, err := h.store.Discard(ctx, c)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.discarded += int(r.Changed)
		h.mu.Unlock()
	}
	return nil
}

// TestRedriveOfAParkedKey: with followers waiting, two relays and one message at a time, nobody passes.
func TestRedriveOfAParkedKey(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	relays := []*testRelay{newTestRelay(t, store, ">"), newTestRelay(t, store, ">")}
	insert(t, conn, "a", 5, 1)
	for range 2 { // the second one died before the policy changed
		relays[0].settle(t, outbox.Died, relays[0].claim(t, 1)...)
	}
	exec(t, conn, "update outbox.dead set holds = true")
	for _, r := range relays {
		if ds := r.claim(t, 10); ds != nil {
			t.Fatalf("passed a parked key: %s", payloads(ds))
		}
	}
	store.signal.wake()
	between := make(chan string, 10)
	_, err := store.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{Key: "k0"}, Rate: 5, Progress: func(outbox.ChangeReport) {
		for _, r := range relays {
			if ds := r.claim(t, 1); ds != nil {
				between <- payloads(ds)
				r.settle(t, outbox.Delivered, ds...)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	store.signal.wake()
	close(between)
	var order string
	for p := range between {
		order += p
	}
	for len(order) < len("1 2 3 4 5 ") {
		ds := claimSoon(t, relays[rand.IntN(2)], 1)
		order += payloads(ds)
		for _, r := range relays {
			if more := r.claim(t, 1); more != nil {
				t.Fatalf("claimed %s while %s was in flight", payloads(more), payloads(ds))
			}
		}
		for _, r := range relays {
			if r.info.ID == ds[0].Claim.Relay {
				r.settle(t, outbox.Delivered, ds...)
			}
		}
	}
	if order != "1 2 3 4 5 " {
		t.Errorf("delivered in the order %s", order)
	}
}

// TestDiscardOfAParkedMessageFreesItsKey, so that its followers go on.
func TestDiscardOfAParkedMessageFreesItsKey(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	relay := newTestRelay(t, store, ">")
	insert(t, conn, "a", 3, 1)
	relay.settle(t, outbox.Died, relay.claim(t, 1)...)
	exec(t, conn, "update outbox.dead set holds = true")
	if ds := relay.claim(t, 10); ds != nil {
		t.Fatalf("passed a parked key: %s", payloads(ds))
	}
	keys, err := store.Keys(t.Context(), 0)
	if err != nil || len(keys.Holds) != 1 || keys.Holds[0].State != outbox.HoldParked || keys.Holds[0].Behind.Messages != 2 {
		t.Fatalf("%+v, %v", keys, err)
	}
	r, err := store.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{keys.Holds[0].ID}}, Reason: "test"})
	if err != nil || r.Changed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	store.signal.wake()
	if ds := claimSoon(t, relay, 10); payloads(ds) != "2 3 " {
		t.Errorf("claimed %s", payloads(ds))
	}
}

// TestOperatorFunctionsBySQL: psql does what the program does, with nothing but EXECUTE, in small batches.
func TestOperatorFunctionsBySQL(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	insert(t, conn, "a", 7, 0)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Died, relay.claim(t, 7)...)
	role := "operator_" + conn.Config().Database
	exec(t, conn, "create role "+role)
	t.Cleanup(func() {
		exec := func(sql string) { _, _ = conn.Exec(context.Background(), sql) }
		exec("reset role")
		exec("drop owned by " + role)
		exec("drop role " + role)
	})
	exec(t, conn, "grant usage on schema outbox to "+role)
	exec(t, conn, "set role "+role)
	refused := func(sql, state string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		if got, _ := sqlError(err); got != state {
			t.Errorf("%s: %v, want %s", sql, err, state)
		}
	}
	refused("select outbox.redrive(everything => true)", "42501")
	exec(t, conn, "reset role")
	exec(t, conn, "grant execute on function outbox.redrive, outbox.retry, outbox.discard, outbox.pause, outbox.resume to "+role)
	exec(t, conn, "set role "+role)
	for _, sql := range []string{"select outbox.redrive()", "select outbox.redrive(topic => 'a..b')", "select outbox.redrive(everything => true, key => 'k')",
		"select outbox.discard(everything => true)", "select outbox.redrive(everything => true, batch => 0)", "select outbox.redrive(key => 'k', max_messages => 0)",
		"select outbox.redrive(key => 'k', older_than => '-1 s')", "select outbox.redrive(operation => 4711)", "select outbox.pause()",
		"select outbox.pause('a', 'b')", "select outbox.pause('a..b')", "select outbox.resume()", "select outbox.pause(destination => 'Events')",
		"select outbox.pause(repeat('a', 256))", "select outbox.redrive(key => '')", "select outbox.redrive(error_class => '')",
		"select outbox.redrive(error_text => '')", "select outbox.redrive(key => 'k', rate => 0)", "select outbox.redrive(key => 'k', batch => null)",
		"select outbox.discard(key => 'k', dry_run => null)"} {
		refused(sql, "22023")
	}
	refused("select outbox.redrive_rows('{1}', '{}')", "42501")
	exec(t, conn, "begin isolation level repeatable read")
	refused("select outbox.redrive(everything => true)", "55000")
	exec(t, conn, "rollback")
	type row struct {
		Operation, Matched, Changed, Held int64
		More                              bool
	}
	batch := func(sql string) row {
		t.Helper()
		rows, err := conn.Query(t.Context(), "select * from "+sql)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := batch("outbox.redrive(topic => 'a', batch => 3, reason => 'test')"); got != (row{1, 3, 3, 0, true}) {
		t.Errorf("first batch %+v", got)
	}
	if got := batch("outbox.redrive(operation => 1, batch => 3)"); got != (row{1, 6, 6, 0, true}) {
		t.Errorf("second batch %+v", got)
	}
	if got := batch("outbox.redrive(operation => 1)"); got != (row{1, 7, 7, 0, false}) {
		t.Errorf("last batch %+v", got)
	}
	if got := batch("outbox.discard(everything => true, reason => 'test')"); got != (row{2, 7, 7, 0, true}) {
		t.Errorf("discard %+v", got)
	}
	if got := batch("outbox.discard(operation => 2)"); got != (row{2, 7, 7, 0, false}) {
		t.Errorf("end of the discard %+v", got)
	}
	exec(t, conn, "select outbox.pause('a.>', reason => 'test'), outbox.resume('a.>')")
	exec(t, conn, "reset role")
	if n := value[int](t, conn, "select count(*) from outbox.operation where actor = 'postgres' and state = 'done'"); n != 4 {
		t.Errorf("%d of 4 operations name the database's user", n)
	}
	if n := value[int](t, conn, "select count(*) from outbox.control"); n != 0 {
		t.Errorf("%d pauses are left", n)
	}
}

// TestOperationsOfTwoProcesses: two that go on with the same operation do each message once.
func TestOperationsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	insert(t, conn, "a", 200, 0)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Died, relay.claim(t, 200)...)
	op := value[int64](t, conn, "select operation_id from outbox.redrive(everything => true, batch => 10)")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if r, err := store.Redrive(t.Context(), outbox.Change{Continue: op, Rate: 1000}); err != nil || r.Changed != 200 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	both.Wait()
	if n := value[int](t, conn, "select count(*) from outbox.waiting where generation = 1"); n != 200 {
		t.Errorf("%d of 200 were redriven once", n)
	}
}

// TestOperatorsInAnotherSchema: no statement says outbox where it means the schema.
func TestOperatorsInAnotherSchema(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	store := newStore(t, url, &Config{Schema: "shop_outbox"})
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, connect(t, url), `insert into shop_outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', '')`)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Died, relay.claim(t, 1)...)
	all := outbox.Change{Filter: outbox.Filter{All: true}, Reason: "test"}
	pause := outbox.Pause{Topic: "a"}
	for name, do := range map[string]func() error{
		"redrive": func() error { _, err := store.Redrive(t.Context(), all); return err },
		"retry":   func() error { _, err := store.Retry(t.Context(), all); return err },
		"pause":   func() error { _, err := store.Pause(t.Context(), pause); return err },
		"resume":  func() error { _, err := store.Resume(t.Context(), pause); return err },
		"keys":    func() error { _, err := store.Keys(t.Context(), 0); return err },
		"why":     func() error { _, err := store.Why(t.Context(), outbox.WhyQuery{Key: "k"}); return err },
		"status":  func() error { _, err := store.Status(t.Context()); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	all.Wait = time.Millisecond
	if r, err := store.Discard(t.Context(), all); err != nil || r.Changed != 1 {
		t.Errorf("discard: %+v, %v", r, err)
	}
}

// TestKeysLongestOfMany: of more keys than are listed those come that are held longest, whatever their names, each with
// the message that holds it although there are older ones.
func TestKeysLongestOfMany(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	for _, table := range []string{"dead", "waiting"} {
		died := map[string]string{"dead": "died_at", "waiting": "available_at"}[table]
		exec(t, conn, fmt.Sprintf(`insert into outbox.%s (seq, id, topic, key, payload, headers, published_at, attempts, holds, first_failed_at, failed_at, error_class, last_error, %s)
			select nextval('outbox.seq'), gen_random_uuid(), 'a', '%s' || lpad(g::text, 4, '0'), '', '{}', now(), 1, true, now() - g * interval '1 second', now(), 'error', 'x', now() - g * interval '1 second'
			from generate_series(1, 3000) g`, table, died, table))
	}
	// A dead message that has just died holds the key of one that has been retried for long.
	exec(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, holds, first_failed_at, failed_at, error_class, last_error, died_at)
		values (0, gen_random_uuid(), 'a', 'waiting3000', '', '{}', now(), 1, true, now(), now(), 'error', 'x', now())`)
	keys, err := store.Keys(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys.Holds) != 1 || keys.Holds[0].Key != "dead3000" || !keys.More {
		t.Errorf("Keys(1) = %+v, want the longest held, and more", keys)
	}
	keys, err = store.Keys(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range keys.Holds {
		if h.Key == "waiting3000" && h.State != outbox.HoldParked {
			t.Errorf("%d: the parked message that holds the key is not seen: %+v", i, h)
		}
	}
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// watch is the sink of several relays and sees whether keys are kept in order.
type watch struct {
	fail func(d *outbox.Delivery) error

	mu       sync.Mutex
	flying   map[string]int64           // per key the seq in delivery
	heads    map[string]map[int64]int64 // per key the redriven seqs that have not ended, with the last claim before
	ended    map[string]bool            // redriven, by seq and generation
	paused   int64                      // claims after this one must not be delivered; 0: not paused
	sequence map[string][]int64         // per key what was delivered
	problems []string
	total    atomic.Int64
}

func newWatch() *watch {
	return &watch{flying: map[string]int64{}, heads: map[string]map[int64]int64{}, ended: map[string]bool{}, sequence: map[string][]int64{},
		fail: func(*outbox.Delivery) error { return nil }}
}

func life(seq int64, generation int) string { return fmt.Sprint(seq, ".", generation) }

func (w *watch) Deliver(_ context.Context, d *outbox.Delivery) error {
	w.enter(d)
	err := w.fail(d)
	w.leave(d, err)
	return err
}

func (w *watch) enter(d *outbox.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other, busy := w.flying[d.Key]; busy {
		w.problems = append(w.problems, fmt.Sprintf("%d and %d of key %s at the same time", other, d.Seq, d.Key))
	}
	w.flying[d.Key] = d.Seq
	for head, claim := range w.heads[d.Key] {
		if head < d.Seq && d.Claim.ID > claim {
			w.problems = append(w.problems, fmt.Sprintf("%d of key %s passed the redriven %d", d.Seq, d.Key, head))
		}
	}
	if w.paused > 0 && d.Claim.ID > w.paused {
		w.problems = append(w.problems, fmt.Sprintf("%d was claimed while paused", d.Seq))
	}
}

func (w *watch) leave(d *outbox.Delivery, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.flying, d.Key)
	if err == nil || outbox.IsPermanent(err) {
		delete(w.heads[d.Key], d.Seq)
		w.ended[life(d.Seq, d.Generation)] = true
	}
	if err == nil {
		w.sequence[d.Key] = append(w.sequence[d.Key], d.Seq)
		w.total.Add(1)
	}
}

// redriven is told of a message after its redrive has committed, with the last claim that was made until then.
func (w *watch) redriven(key string, seq int64, generation int, lastClaim int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[life(seq, generation)] {
		return
	}
	if w.heads[key] == nil {
		w.heads[key] = map[int64]int64{}
	}
	w.heads[key][seq] = lastClaim
}

// run runs relays, each with its own store, until the test ends it.
func (w *watch) run(t *testing.T, url string, relays int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range relays {
		store := newStore(t, url, nil)
		relay, err := outbox.NewRelay(store, []outbox.Route{{Name: "lane", Topics: []string{">"}, Sink: w, Slots: 10, BatchSize: 3}},
			&outbox.Config{Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: 5 * time.Millisecond}, PollInterval: 50 * time.Millisecond,
				Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := relay.Run(ctx); err != nil {
				t.Errorf("relay: %v", err)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (w *watch) await(t *testing.T, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); w.total.Load() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d delivered", w.total.Load(), n)
		}
	}
}

func (w *watch) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.problems {
		if i == 10 {
			t.Fatalf("… %d problems", len(w.problems))
		}
		t.Error(p)
	}
}

// TestRedriveUnderLoad: messages die and are redriven while two relays deliver their followers: never two of a key at
// the same time, and nobody who is claimed after the redrive passes a redriven one. One by one, and by a rate.
func TestRedriveUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const messages, keys = 1500, 15
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	w := newWatch()
	w.fail = func(d *outbox.Delivery) error {
		time.Sleep(time.Millisecond)
		switch {
		case d.Generation < 2 && d.Seq%7 == 0:
			return outbox.Permanent(errors.New("dies twice"))
		case d.Attempt == 1 && d.Seq%5 == 0:
			return errors.New("fails once")
		}
		return nil
	}
	insert(t, conn, "a", messages, keys)
	stop := w.run(t, url, 2)
	for i := 0; w.total.Load() < messages; i++ {
		rows, err := store.pool.Query(t.Context(), "select id, key, seq, generation + 1 from outbox.dead order by random() limit 3")
		if err != nil {
			t.Fatal(err)
		}
		var ids []outbox.ID
		var told []func(claim int64)
		for rows.Next() {
			var id outbox.ID
			var key string
			var seq int64
			var generation int
			if err := rows.Scan(&id, &key, &seq, &generation); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			told = append(told, func(claim int64) { w.redriven(key, seq, generation, claim) })
		}
		if ids == nil {
			time.Sleep(time.Millisecond)
			if t.Context().Err() != nil || i > 100_000 {
				t.Fatalf("%d of %d delivered", w.total.Load(), messages)
			}
			continue
		}
		c := outbox.Change{Filter: outbox.Filter{IDs: ids}}
		if i%2 == 1 {
			c.Rate = 200
		}
		if _, err := store.Redrive(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		claim := value[int64](t, conn, "select last_value from outbox.claim_id_seq")
		for _, tell := range told {
			tell(claim)
		}
	}
	stop()
	w.check(t)
	if n := value[int](t, conn, "select count(*) from outbox.operation where verb = 'redrive'"); n < 50 {
		t.Errorf("%d redrives only", n)
	}
}

// TestWatchFires: what the tests above look for is found when it happens.
func TestWatchFires(t *testing.T) {
	w := newWatch()
	d := func(seq, claim int64) *outbox.Delivery {
		return &outbox.Delivery{Message: outbox.Message{Key: "k"}, Seq: seq, Claim: outbox.ClaimRef{ID: claim}}
	}
	w.enter(d(5, 1))
	w.enter(d(6, 1))
	w.leave(d(6, 1), nil)
	w.redriven("k", 3, 1, 7)
	w.enter(d(8, 7))
	w.leave(d(8, 7), nil)
	w.enter(d(9, 8))
	w.leave(d(9, 8), nil)
	w.leave(d(3, 8), nil)
	w.paused = 8
	w.enter(d(10, 9))
	if len(w.problems) != 3 {
		t.Errorf("found %q", w.problems)
	}
}

// TestPauseUnderLoad: after Pause has returned nothing of the topic is claimed; after Resume all goes on in order.
func TestPauseUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const messages, keys = 3000, 12
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	w := newWatch()
	w.fail = func(*outbox.Delivery) error { time.Sleep(100 * time.Microsecond); return nil }
	stop := w.run(t, url, 2)
	insert(t, conn, "a.b", messages/2, keys)
	for i, p := range []outbox.Pause{{Topic: "a.*"}, {Destination: "lane"}, {Topic: "a.b"}} {
		w.await(t, int64((i+1)*messages/10))
		if _, err := store.Pause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		claim := value[int64](t, conn, "select last_value from outbox.claim_id_seq")
		w.mu.Lock()
		w.paused = claim
		w.mu.Unlock()
		if i == 0 {
			insert(t, conn, "a.b", messages/2, keys) // behind the paused ones
		}
		for before := int64(-1); before != w.total.Load(); time.Sleep(100 * time.Millisecond) {
			before = w.total.Load()
		}
		if w.total.Load() == messages {
			t.Fatal("everything was delivered before the pause")
		}
		w.mu.Lock()
		w.paused = 0
		w.mu.Unlock()
		if r, err := store.Resume(t.Context(), p); err != nil || r.Changed != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	w.await(t, messages)
	stop()
	w.check(t)
	for key, seqs := range w.sequence {
		for i := range seqs {
			if i > 0 && seqs[i] <= seqs[i-1] {
				t.Fatalf("key %s: %d after %d", key, seqs[i], seqs[i-1])
			}
		}
	}
}

package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// hopPoll is far more than a hop takes: one that waited for it would show.
const hopPoll = 30 * time.Second

// hops notes when messages, whose payloads are their numbers from 0, became deliverable and when their handlers began.
type hops struct {
	mu         sync.Mutex
	free       []time.Time // committed, or the one before accepted
	begun      []time.Time
	began      int
	disordered int
	all        chan struct{} // closed when every message has begun
}

func newHops(n int) *hops {
	return &hops{free: make([]time.Time, n), begun: make([]time.Time, n), all: make(chan struct{})}
}

func (h *hops) becomesFree(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i < len(h.free) {
		h.free[i] = time.Now()
	}
}

func (h *hops) begins(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun[i] = time.Now()
	if i != h.began {
		h.disordered++
	}
	if h.began++; h.began == len(h.begun) {
		close(h.all)
	}
}

// sorted returns how long each hop took, the shortest first.
func (h *hops) sorted() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var took []time.Duration
	for i := range h.begun {
		if !h.free[i].IsZero() { // the handler may begin before the publisher hears of its commit
			took = append(took, max(0, h.begun[i].Sub(h.free[i])))
		}
	}
	slices.Sort(took)
	return took
}

func (h *hops) check(t *testing.T) {
	t.Helper()
	select {
	case <-h.all:
	case <-time.After(2 * time.Minute):
		t.Fatal("not everything was delivered in two minutes")
	}
	took := h.sorted()
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100] }
	t.Logf("%d hops: p50 %v, p99 %v, longest %v", len(took), at(50), at(99), at(100))
	if h.disordered > 0 {
		t.Errorf("%d of %d out of order", h.disordered, len(took))
	}
	if at(100) > hopPoll/4 {
		t.Errorf("a hop took %v: it has waited for the poll interval", at(100))
	}
}

// hopRelay runs a relay that takes a topic of the one destination, until the test ends.
func hopRelay(t *testing.T, url, topic string, handle func(i int)) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		i, err := strconv.Atoi(string(d.Payload))
		if err != nil {
			return outbox.Permanent(err)
		}
		handle(i)
		return nil
	})
	relay, err := outbox.NewRelay(newStore(t, url, &Config{Logger: log}),
		[]outbox.Route{{Name: "lane", Topics: []string{topic}, Sink: sink}}, &outbox.Config{PollInterval: hopPoll, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-relay.Ready()
}

// TestHop: one key at 100 messages a second, handed between two relays. The figures are in its log.
func TestHop(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const n = 200
	url := migratedDatabase(t)
	h := newHops(n)
	for range 2 {
		hopRelay(t, url, ">", h.begins)
	}
	conn, p := connect(t, url), newPublisher(t, nil)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		publish(t, conn, p, outbox.Message{Topic: "t", Key: "k", Payload: fmt.Append(nil, i)})
		h.becomesFree(i)
	}
	h.check(t)
}

// TestHopBetweenTopics: one key whose messages alternate between two topics of a destination, each of which only one of
// two relays takes: with notifications no message waits for the poll interval.
func TestHopBetweenTopics(t *testing.T) {
	t.Parallel()
	const n = 100
	url := migratedDatabase(t)
	h := newHops(n)
	for _, topic := range []string{"t.0", "t.1"} {
		hopRelay(t, url, topic, func(i int) {
			h.begins(i)
			h.becomesFree(i + 1)
		})
	}
	var ms []outbox.Message
	for i := range n {
		ms = append(ms, outbox.Message{Topic: fmt.Sprint("t.", i%2), Key: "k", Payload: fmt.Append(nil, i)})
	}
	conn := connect(t, url)
	if _, err := tryPublish(t.Context(), conn, pgx.TxOptions{}, newPublisher(t, nil), ms...); err != nil {
		t.Fatal(err)
	}
	h.becomesFree(0)
	h.check(t)
}

// Package record writes what a relay does into a history: what its store answers and what its sinks accept.
// Both are wrapped, so that the relay itself runs unchanged. A history that cannot be written is worthless, so
// the process then panics.
package record

import (
	"context"
	"errors"
	"sync"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// Store is a Store whose answers are recorded.
type Store struct {
	outbox.Store
	log *history.Log

	mu    sync.Mutex
	held  map[place]message // claimed and not settled
	begun map[place]int64   // when a settlement was asked for the first time
}

// place is where a message is listed.
type place struct {
	claim outbox.ClaimRef
	seq   int64
}

type message struct{ id, destination string }

var (
	_ outbox.Preparer = (*Store)(nil)
	_ outbox.Listener = (*Store)(nil)
)

// NewStore records what the store answers.
func NewStore(store outbox.Store, log *history.Log) *Store {
	return &Store{Store: store, log: log, held: map[place]message{}, begun: map[place]int64{}}
}

// Prepare prepares the store if that needs it.
func (s *Store) Prepare(ctx context.Context) error {
	if p, ok := s.Store.(outbox.Preparer); ok {
		return p.Prepare(ctx)
	}
	return nil
}

// Listen runs what the store has to run, or nothing until ctx is done.
func (s *Store) Listen(ctx context.Context) {
	if l, ok := s.Store.(outbox.Listener); ok {
		l.Listen(ctx)
		return
	}
	<-ctx.Done()
}

// Claim records Claimed for each claim, or LeaseLost.
func (s *Store) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	since := s.log.Now()
	batch, err := s.Store.Claim(ctx, q)
	var events []history.Event
	if errors.Is(err, outbox.ErrLeaseLost) {
		events = append(events, history.Event{Kind: history.LeaseLost, Relay: q.Relay.String()})
	}
	for _, c := range batch.Claims {
		events = append(events, history.Event{Kind: history.Claimed, Relay: c.Ref.Relay.String(), Destination: q.Destination, Claim: c.Ref.ID, Since: since})
		s.hold(c, q.Destination)
	}
	must(s.log.Append(events...))
	return batch, err
}

func (s *Store) hold(c outbox.Claim, destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range c.Deliveries {
		s.held[place{c.Ref, d.Seq}] = message{d.ID.String(), destination}
	}
}

// Beat records Leased, or LeaseLost. A last beat gives the lease up; that Run returned is for its caller to
// record.
func (s *Store) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	asked := s.log.Now()
	orders, err := s.Store.Beat(ctx, info, known)
	e := history.Event{Relay: info.ID.String()}
	switch {
	case err == nil && !info.Stopping:
		e.Kind, e.Until = history.Leased, asked+int64(info.Lease)
	case errors.Is(err, outbox.ErrLeaseLost):
		e.Kind = history.LeaseLost
	default:
		return orders, err
	}
	must(s.log.Append(e))
	return orders, err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

package record

import (
	"context"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// Settle records Settling for every outcome but Delivered, and what the store answered. That a message is
// settled already is recorded only if it was asked for before: the answer to that was lost. Otherwise somebody
// else has ended the message, and this relay has changed nothing.
func (s *Store) Settle(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Settled, error) {
	repeated := s.asked(outcomes)
	var requests []history.Event
	for _, o := range outcomes {
		if e, known := s.event(o); known && o.Kind != outbox.Delivered {
			e.Kind, e.Since = history.Settling, 0
			requests = append(requests, e)
		}
	}
	must(s.log.Append(requests...))
	answers, err := s.Store.Settle(ctx, outcomes)
	if err != nil {
		return answers, err
	}
	var events []history.Event
	for i, o := range outcomes {
		e, known := s.event(o)
		if !known {
			continue
		}
		s.release(o)
		e.Kind = history.Settled
		if answers[i] == outbox.SettledFenced {
			e.Kind = history.Fenced
		}
		e.Repeated = answers[i] == outbox.SettledBefore
		if answers[i] != outbox.SettledBefore || repeated[i] {
			events = append(events, e)
		}
	}
	must(s.log.Append(events...))
	return answers, nil
}

// asked tells which outcomes have been asked for before.
func (s *Store) asked(outcomes []outbox.Outcome) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := make([]bool, len(outcomes))
	for i, o := range outcomes {
		asked[i] = s.begun[place{o.Claim, o.Seq}] != 0
	}
	return asked
}

// event describes the outcome, Since being the first time that it was asked for: a request whose answer was
// lost may have been the one that took effect.
func (s *Store) event(o outbox.Outcome) (history.Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{o.Claim, o.Seq}
	m, known := s.held[at]
	if !known {
		return history.Event{}, false
	}
	if s.begun[at] == 0 {
		s.begun[at] = s.log.Now()
	}
	return history.Event{
		Relay: o.Claim.Relay.String(), Message: m.id, Seq: o.Seq, Destination: m.destination,
		Claim: o.Claim.ID, Outcome: o.Kind.String(), Since: s.begun[at],
	}, true
}

func (s *Store) release(o outbox.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, place{o.Claim, o.Seq})
	delete(s.begun, place{o.Claim, o.Seq})
}

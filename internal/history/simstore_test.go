package history

import (
	"maps"
	"slices"
)

// simStore is a correct outbox in a few lines, for histories by the thousand, and a wrong one if a bug is
// named. Its clock is the simulation's.
type simStore struct {
	bug    string
	rows   map[int64]*simRow // committed and to be delivered, by seq
	dead   []*simRow
	relays map[string]int64 // end of the lease
	claims map[int64]*simClaim
	last   int64 // claim id
}

type simRow struct {
	*simMessage
	due   int64 // of a retry, or as scheduled
	holds bool  // its key while it is not due: always, but for scheduled ones not claimed yet
}

type simMessage struct {
	id, key  string
	seq      int64
	payload  string
	deferred bool
}

type simClaim struct {
	relay string
	seqs  []int64
}

// The bugs that a simStore can have, with a violation that each must cause sooner or later.
var simBugs = map[string]ViolationKind{
	"commit loses":           Lost,
	"rollback keeps":         Phantom,
	"visible before commit":  Early,
	"payload changes":        Changed,
	"seq changes":            Changed,
	"held keys are claimed":  Concurrent,
	"retries hold no key":    Overtaken,
	"redriven hold no key":   Overtaken,
	"newest first":           Overtaken,
	"live claims are stolen": Concurrent,
	"settled rows stay":      Duplicate,
	"late settles count":     LateSettle,
	"failure is success":     Unaccepted,
	"failure is the end":     Lost,
	"good settles refused":   WrongFence,
}

func (s *simStore) has(bug string) bool { return s.bug == bug }

// claim answers −1 to a relay that is not registered any more.
func (s *simStore) claim(relay string, now int64, limit int) (int64, []*simMessage) {
	maps.DeleteFunc(s.relays, func(_ string, until int64) bool { return until < now })
	if _, live := s.relays[relay]; !live {
		return -1, nil
	}
	for id, c := range s.claims {
		if _, live := s.relays[c.relay]; !live || s.has("live claims are stolen") && c.relay != relay {
			delete(s.claims, id)
		}
	}
	taken := s.candidates(now, limit)
	if len(taken) == 0 {
		return 0, nil
	}
	s.last++
	c := &simClaim{relay: relay}
	for _, m := range taken {
		c.seqs = append(c.seqs, m.seq)
		s.rows[m.seq].holds = true
	}
	s.claims[s.last] = c
	return s.last, taken
}

// candidates applies the key rule: no key that a claim holds, none with an older message left behind.
func (s *simStore) candidates(now int64, limit int) []*simMessage {
	listed, closed := s.held()
	seqs := slices.Sorted(maps.Keys(s.rows))
	if s.has("newest first") {
		slices.Reverse(seqs)
	}
	var taken []*simMessage
	for _, seq := range seqs {
		row := s.rows[seq]
		switch {
		case listed[seq] || len(taken) == limit:
		case row.due > now:
			if row.key != "" && row.holds && !s.has("retries hold no key") {
				closed[row.key] = true
			}
		case !closed[row.key]:
			taken = append(taken, row.simMessage)
		}
	}
	return taken
}

func (s *simStore) held() (listed map[int64]bool, keys map[string]bool) {
	listed, keys = map[int64]bool{}, map[string]bool{}
	for _, c := range s.claims {
		for _, seq := range c.seqs {
			listed[seq] = true
			if row := s.rows[seq]; row != nil && row.key != "" && !s.has("held keys are claimed") {
				keys[row.key] = true
			}
		}
	}
	return listed, keys
}

// settle reports whether the settlement was accepted.
func (s *simStore) settle(id int64, relay string, m *simMessage, outcome string, due int64) bool {
	c := s.claims[id]
	mine := c != nil && c.relay == relay && slices.Contains(c.seqs, m.seq)
	if s.has("late settles count") {
		mine = true
	}
	if !mine || s.has("good settles refused") && m.seq%5 == 0 {
		return false
	}
	if c != nil {
		s.unlist(c, m, outcome)
	}
	if outcome != OutcomeRetried {
		if row := s.rows[m.seq]; row != nil && outcome == OutcomeDied {
			s.dead = append(s.dead, row)
		}
		if !s.has("settled rows stay") {
			delete(s.rows, m.seq)
		}
	} else if row := s.rows[m.seq]; row != nil {
		row.due = due
		if s.has("failure is the end") {
			delete(s.rows, m.seq)
		}
	}
	return true
}

// unlist takes the message from the claim, and with one that is retried those behind it.
func (s *simStore) unlist(c *simClaim, m *simMessage, outcome string) {
	c.seqs = slices.DeleteFunc(c.seqs, func(seq int64) bool {
		row := s.rows[seq]
		follower := outcome == OutcomeRetried && row != nil && m.key != "" && row.key == m.key && seq > m.seq
		return seq == m.seq || follower
	})
}

// stop gives back what the relay holds and removes it.
func (s *simStore) stop(relay string) {
	maps.DeleteFunc(s.claims, func(_ int64, c *simClaim) bool { return c.relay == relay })
	delete(s.relays, relay)
}

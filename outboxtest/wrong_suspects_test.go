package outboxtest

import "github.com/outboxrelay/outbox"

// wrongSuspects are stores that treat what kills relays wrongly.
func wrongSuspects() []wrong {
	sound := soundRules()
	return []wrong{
		{"suspects are taken over together", rule(func(r *rules) {
			r.suspect = func(int) bool { return false }
		}), []string{
			"after two lapses messages are taken over one at a time",
			"a suspect is mixed neither with fresh nor with lapsed messages",
		}},
		{"what has lapsed once is a suspect", rule(func(r *rules) {
			r.suspect = func(lapses int) bool { return lapses > 0 }
		}), []string{"a suspect is mixed neither with fresh nor with lapsed messages"}},
		{"a relay takes any number of suspects", rule(func(r *rules) {
			r.mayTakeSuspect = func(*pick) bool { return true }
		}), []string{
			"after two lapses messages are taken over one at a time",
			"a relay takes one suspect over all its lanes, each relay its own",
		}},
		{"each lane takes a suspect", rule(func(r *rules) {
			r.mayTakeSuspect = func(p *pick) bool {
				for _, c := range p.box.claims {
					if c.destination == p.query.Destination && c.relay == p.query.Relay && sound.suspect(c.lapses) {
						return false
					}
				}
				return true
			}
		}), []string{"a relay takes one suspect over all its lanes, each relay its own"}},
		{"all relays together take one suspect", rule(func(r *rules) {
			r.mayTakeSuspect = func(p *pick) bool {
				for _, c := range p.box.claims {
					if p.box.isLive(c) && sound.suspect(c.lapses) {
						return false
					}
				}
				return true
			}
		}), []string{"a relay takes one suspect over all its lanes, each relay its own"}},
		{"a relay with a suspect takes nothing else", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool { return sound.takes(p, r) && sound.mayTakeSuspect(p) }
		}), []string{"suspects keep no fresh messages waiting"}},
		{"suspects pass older messages of their key", rule(func(r *rules) {
			r.leads = func(p *pick, r *row) bool { return p.keyOf(r) == "" || !p.isHeld(p.keyOf(r)) }
		}), []string{"a suspect waits for an older message of its key"}},
		{"the first suspect keeps all others waiting", rule(func(r *rules) {
			r.leads = func(p *pick, r *row) bool {
				for _, other := range p.candidates() {
					if p.isSuspect(other) && other.seq < r.seq && !sound.leads(p, other) {
						return false
					}
				}
				return sound.leads(p, r)
			}
		}), []string{"a suspect that waits for its key keeps no other suspect waiting"}},
		{"suspects do not hold their keys", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool { return sound.inOrder(p, r) && !p.isSuspect(r) }
			r.leads = func(p *pick, r *row) bool { return true }
			r.blocks = func(c *claim, key, destination string) bool {
				return sound.blocks(c, key, destination) && !sound.suspect(c.lapses)
			}
		}), []string{"suspects hold their keys, in order", "a scheduled message that is a suspect holds its key"}},
		{"no suspect ever has crashed", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) {
				for i := range b.Claims {
					b.Claims[i].Lapses = min(b.Claims[i].Lapses, outbox.SuspectLapses)
				}
			}}
		}), []string{"only a suspect that lapses again has crashed", "after a crash a message stays a suspect"}},
		{"every suspect has crashed", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) {
				for i := range b.Claims {
					if b.Claims[i].Suspect() {
						b.Claims[i].Lapses = outbox.SuspectLapses + 1
					}
				}
			}}
		}), []string{"only a suspect that lapses again has crashed", "what is given back stays a suspect"}},
		{"a crash is forgotten", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Retried, func(r *row, _ outbox.Outcome) { r.suspicion = 0 })}
		}), []string{"after a crash a message stays a suspect", "a failure without a crash ends the suspicion"}},
		{"any failure makes a suspect", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Retried, func(r *row, _ outbox.Outcome) {
				r.suspicion = outbox.SuspectLapses
			})}
		}), []string{"a failure without a crash ends the suspicion"}},
		{"giving back ends the suspicion", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.GivenBack, func(r *row, _ outbox.Outcome) { r.claim.lapses = 0 })}
		}), []string{"what is given back stays a suspect", "giving back keeps the lapses"}},
	}
}

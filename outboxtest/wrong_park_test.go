package outboxtest

import (
	"github.com/outboxrelay/outbox"
)

// wrongParks are stores that hold the keys of dead letters wrongly.
func wrongParks() []wrong {
	return append(wrongHolding(), []wrong{
		{"a parked message does not hold its key", hooked(func(*box) wrongStore {
			return wrongStore{outcome: func(o *outbox.Outcome) { o.Holds = false }}
		}), []string{
			"a parked key holds what follows, ready and waiting",
			"a message that is parked after retries holds its key",
			"a parked key stays held when relays come and go",
		}},
		{"every dead message holds its key", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Died, func(r *row, _ outbox.Outcome) { r.holds = r.Key != "" })}
		}), []string{
			"a dead message that is not parked frees its key, though it held it while it waited",
			"a dead message frees its key and keeps its error",
		}},
		{"a dead message without a key is parked", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Died, func(r *row, o outbox.Outcome) { r.holds = o.Holds })}
		}), []string{"a dead message without a key holds nothing"}},
		{"followers of a parked head stay listed", hooked(func(*box) wrongStore {
			parking := false
			return wrongStore{outcome: func(o *outbox.Outcome) {
				if parking = parking || o.Holds; parking && o.Kind == outbox.Unlisted {
					o.Kind = outbox.GivenBack
				}
			}}
		}), []string{"followers of a head that is parked leave the list with it"}},
	}...)
}

// wrongHolding are rules that are wrong about parked keys.
func wrongHolding() []wrong {
	sound := soundRules()
	return []wrong{
		{"a parked key holds only what is ready", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && !(r.state == dead && p.box.hasKey(r.Key, func(o *row) bool { return o.state == waiting && o.isDue(p.now) }))
			}
		}), []string{"a parked key holds what follows, ready and waiting"}},
		{"a parked message holds older ones", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && !p.box.hasKey(r.Key, func(o *row) bool { return o.state == dead && o.holds && o.seq > r.seq })
			}
		}), []string{"a parked message holds nothing older"}},
		{"a parked key is held everywhere", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool { return sound.inOrder(p, r) || r.state == dead && r.holds }
		}), []string{"a parked key is held in its destination only"}},
		{"a parked key holds back messages without order", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && !p.box.hasKey(r.Key, func(o *row) bool { return o.state == dead && o.holds && o.seq < r.seq })
			}
		}), []string{"a parked key does not hold back messages without order"}},
		{"a parked key is free when there are other relays", func(h *harness) {
			parkedBy := map[int64]outbox.ID{}
			h.store.box.rules.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && (r.state != dead || p.box.relays[parkedBy[r.seq]] != nil)
			}
			hooked(func(b *box) wrongStore {
				return wrongStore{after: onRow(b, outbox.Died, func(r *row, o outbox.Outcome) { parkedBy[r.seq] = o.Claim.Relay })}
			})(h)
		}, []string{"a parked key stays held when relays come and go"}},
	}
}

// hasKey reports whether there is such a message of the key.
func (b *box) hasKey(key string, is func(r *row) bool) bool {
	for _, r := range b.rows {
		if key != "" && r.Key == key && is(r) {
			return true
		}
	}
	return false
}

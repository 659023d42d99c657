package outboxtest

import (
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// wrongHeads are stores whose operators do not know of suspects and parked keys.
func wrongHeads() []wrong {
	return slices.Concat(wrongSuspicions(), wrongRedrives(), wrongTelling())
}

func wrongSuspicions() []wrong {
	sound := soundRules()
	return []wrong{
		{"redriving forgets a crash", onChanged("redrive", func(r *row) { r.suspicion = 0 }),
			[]string{"a redriven message that died of a crash is a suspect still"}},
		{"redriving makes suspects", onChanged("redrive", func(r *row) { r.suspicion = outbox.SuspectLapses }),
			[]string{"a redriven message that died of something else is no suspect"}},
		{"a retry forgets a crash", onChanged("retry", func(r *row) { r.suspicion = 0 }),
			[]string{"a retry keeps a crashed message a suspect"}},
		{"a discard forgets the lapses of its neighbours", rule(func(r *rules) {
			r.fences = func(b *box, r *row) { c := r.claim; b.takeFrom(c, r); c.lapses = 0 }
		}), []string{"a discard of one suspect leaves the others of its claim suspects"}},
		{"a paused suspect keeps all others waiting", rule(func(r *rules) {
			r.mayTakeSuspect = func(p *pick) bool {
				for _, r := range p.box.rows {
					if p.isSuspect(r) && p.box.isPaused(r.Topic, p.query.Destination) {
						return false
					}
				}
				return sound.mayTakeSuspect(p)
			}
		}), []string{"a paused suspect holds its key, and no other suspect"}},
		{"a paused suspect holds no key", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && !(p.isSuspect(r) && p.box.isPaused(r.Topic, p.query.Destination))
			}
		}), []string{"a paused suspect holds its key, and no other suspect"}},
		{"a suspect is not discarded when its relay has died", rule(func(r *rules) {
			r.heldLive = func(b *box, r *row, now time.Time) bool {
				return sound.heldLive(b, r, now) || r.claim != nil && r.claim.lapses >= outbox.SuspectLapses
			}
		}), []string{"a discard that waits for a suspect removes it when its relay dies"}},
		{"a discard counts a lapse of its neighbours each time", rule(func(r *rules) {
			r.fences = func(b *box, r *row) { c := r.claim; b.takeFrom(c, r); c.lapses++ }
		}), []string{"a discard of one suspect leaves the others of its claim suspects"}},
	}
}

func wrongRedrives() []wrong {
	sound := soundRules()
	return []wrong{
		{"redriving one message frees its key", operating(func(b *box) wrongOperator {
			return wrongOperator{report: func(verb string, _ *outbox.ChangeReport) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, r := range b.rows {
					if verb == "redrive" && r.state == dead {
						r.holds = false
					}
				}
			}}
		}), []string{"redriving one of two parked messages leaves the key held by the other"}},
		{"a redriven message passes parked ones", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && !(r.state == dead && p.box.hasKey(r.Key, func(o *row) bool { return o.generation > 0 }))
			}
		}), []string{"two parked messages of a key are redriven in order"}},
	}
}

func wrongTelling() []wrong {
	return []wrong{
		{"Keys knows no parked ones", operating(func(*box) wrongOperator {
			return wrongOperator{keys: func(k *outbox.Keys) {
				k.Holds = slices.DeleteFunc(k.Holds, func(h outbox.KeyHold) bool { return h.State == outbox.HoldParked })
			}}
		}), []string{"Keys and Why tell of parked keys"}},
		{"Keys knows no suspects", operating(func(*box) wrongOperator {
			return wrongOperator{keys: func(k *outbox.Keys) {
				for i := range k.Holds {
					k.Holds[i].Lapses = 0
				}
			}}
		}), []string{"Keys and Why tell of suspects"}},
		{"Why knows no suspects", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) {
				if w.Head != nil {
					w.Head.Lapses = 0
				}
			}}
		}), []string{"Keys and Why tell of suspects"}},
		{"every message with a key holds it, says Why", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) {
				if w.Message != nil {
					w.Message.Holds = w.Message.Key != ""
				}
			}}
		}), []string{"what is delivered without order holds no key in Keys and Why"}},
	}
}

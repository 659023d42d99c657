package outboxtest

import (
	"context"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// wrongOperator stands before a sound one and changes what goes in or comes out. Nil hooks change nothing.
type wrongOperator struct {
	outbox.Archivist
	change func(verb string, c *outbox.Change)
	report func(verb string, r *outbox.ChangeReport)
	pause  func(p *outbox.Pause)
	keys   func(k *outbox.Keys)
	why    func(w *outbox.Why)

	operations func([]outbox.Operation)
}

func (o *wrongOperator) do(verb string, c outbox.Change, do func(outbox.Change) (outbox.ChangeReport, error)) (outbox.ChangeReport, error) {
	if o.change != nil {
		o.change(verb, &c)
	}
	r, err := do(c)
	if o.report != nil {
		o.report(verb, &r)
	}
	return r, err
}

func (o *wrongOperator) Redrive(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return o.do("redrive", c, func(c outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Redrive(ctx, c) })
}

func (o *wrongOperator) Retry(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return o.do("retry", c, func(c outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Retry(ctx, c) })
}

func (o *wrongOperator) Discard(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return o.do("discard", c, func(c outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Discard(ctx, c) })
}

func (o *wrongOperator) Purge(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return o.do("purge", c, func(c outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Purge(ctx, c) })
}

func (o *wrongOperator) Replay(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return o.do("replay", c, func(c outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Replay(ctx, c) })
}

func (o *wrongOperator) Operations(ctx context.Context, limit int) ([]outbox.Operation, error) {
	list, err := o.Archivist.Operations(ctx, limit)
	if o.operations != nil {
		o.operations(list)
	}
	return list, err
}

func (o *wrongOperator) Pause(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	if o.pause != nil {
		o.pause(&p)
	}
	return o.do("pause", outbox.Change{}, func(outbox.Change) (outbox.ChangeReport, error) { return o.Archivist.Pause(ctx, p) })
}

func (o *wrongOperator) Keys(ctx context.Context, limit int) (outbox.Keys, error) {
	k, err := o.Archivist.Keys(ctx, limit)
	if o.keys != nil {
		o.keys(&k)
	}
	return k, err
}

func (o *wrongOperator) Why(ctx context.Context, q outbox.WhyQuery) (outbox.Why, error) {
	w, err := o.Archivist.Why(ctx, q)
	if o.why != nil {
		o.why(&w)
	}
	return w, err
}

// operating plants the hooks that make returns for the store's box.
func operating(make func(b *box) wrongOperator) func(h *harness) {
	return func(h *harness) {
		hooks := make(h.store.box)
		h.wrapOperator = func(o outbox.Operator) outbox.Operator {
			w := hooks
			w.Archivist = o.(outbox.Archivist)
			return &w
		}
	}
}

// onChanged makes operators that change each waiting row after a verb.
func onChanged(verb string, change func(r *row)) func(h *harness) {
	return operating(func(b *box) wrongOperator {
		return wrongOperator{report: func(v string, _ *outbox.ChangeReport) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, r := range b.rows {
				if v == verb && r.state == waiting {
					change(r)
				}
			}
		}}
	})
}

// onChange makes operators that understand a change wrongly.
func onChange(change func(verb string, c *outbox.Change)) func(h *harness) {
	return operating(func(*box) wrongOperator { return wrongOperator{change: change} })
}

const (
	redrivenAgain = "a redriven message is delivered again, its attempts from the start, a generation on"
	pausedAlone   = "a paused topic is not claimed and holds its keys until it is resumed"
	awaitsFailure = "a discard that waits removes a message as soon as its delivery has failed"
)

func wrongOperators() []wrong {
	return append(wrongChanges(), append(wrongDiscards(), append(wrongPauses(), wrongAnswers()...)...)...)
}

func wrongChanges() []wrong {
	return []wrong{
		{"redriving keeps the attempts", onChanged("redrive", func(r *row) { r.attempts = 1 }), []string{redrivenAgain}},
		{"redriving keeps the generation", onChanged("redrive", func(r *row) { r.generation = 0 }), []string{redrivenAgain}},
		{"redriven messages wait", onChanged("redrive", func(r *row) { r.availableAt = r.availableAt.Add(time.Hour) }),
			[]string{redrivenAgain, "a redriven message waits for the follower in flight"}},
		{"redriven messages do not hold their keys", onChanged("redrive", func(r *row) { r.holds = false }),
			[]string{"a redriven message goes before the followers that nobody has claimed yet"}},
		{"filters are ignored", onChange(func(verb string, c *outbox.Change) {
			if c.Check(verb) == nil && c.Continue == 0 {
				c.Filter = outbox.Filter{All: true, Limit: c.Limit}
			}
		}), []string{"a filter changes what it matches, and nothing else"}},
		{"limits are ignored", onChange(func(_ string, c *outbox.Change) { c.Limit = max(-c.Limit, 0) }),
			[]string{"a change stops at its limit"}},
		{"no filter means everything", onChange(func(verb string, c *outbox.Change) {
			if c.Check(verb) != nil {
				c.Filter = outbox.Filter{All: true}
			}
		}), []string{"a change without a filter, or with a wrong one, is refused and changes nothing"}},
		{"any text is taken", onChange(func(_ string, c *outbox.Change) {
			c.Actor, c.Reason = strings.ToValidUTF8(c.Actor, ""), strings.ReplaceAll(c.Reason, "\x00", "")
		}), []string{"a change without a filter, or with a wrong one, is refused and changes nothing"}},
		{"any destination is paused", operating(func(*box) wrongOperator {
			return wrongOperator{pause: func(p *outbox.Pause) { p.Destination = strings.ToLower(p.Destination) }}
		}), []string{"a change without a filter, or with a wrong one, is refused and changes nothing"}},
		{"a dry run is none", onChange(func(_ string, c *outbox.Change) { c.DryRun = false }),
			[]string{"a dry run counts and changes nothing"}},
		{"an operation that has ended begins anew", onChange(func(_ string, c *outbox.Change) {
			if c.Continue == 1 {
				*c = outbox.Change{Filter: outbox.Filter{All: true}}
			}
		}), []string{"an operation that has ended can be asked for again"}},
		{"a retry starts the attempts from the beginning", onChanged("retry", func(r *row) { r.attempts = 0 }),
			[]string{"a retry makes a waiting message due and keeps its attempts"}},
		{"a retry makes everything due", onChanged("retry", func(r *row) { r.availableAt = r.publishedAt }),
			[]string{"a retry leaves scheduled messages alone unless they are named"}},
	}
}

func wrongDiscards() []wrong {
	return []wrong{
		{"a discard takes what a live relay holds", rule(func(r *rules) {
			r.heldLive = func(*box, *row, time.Time) bool { return false }
		}), []string{"a discard leaves what a live relay holds", awaitsFailure}},
		{"a discard leaves what a lapsed relay held", rule(func(r *rules) {
			r.heldLive = func(_ *box, r *row, _ time.Time) bool { return r.claim != nil }
		}), []string{"a discarded message cannot be settled by its lapsed relay"}},
		{"a discard does not fence", rule(func(r *rules) {
			r.fences = func(*box, *row) {}
		}), []string{"a discarded message cannot be settled by its lapsed relay"}},
		{"a discard removes the ready ones only", operating(func(b *box) wrongOperator {
			kept := map[int64]*row{}
			hide := func(verb string, _ *outbox.Change) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for seq, r := range b.rows {
					if verb == "discard" && r.state != ready {
						kept[seq] = r
						delete(b.rows, seq)
					}
				}
			}
			return wrongOperator{change: hide, report: func(string, *outbox.ChangeReport) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for seq, r := range kept {
					b.rows[seq] = r
					delete(kept, seq)
				}
			}}
		}), []string{"a discard removes what is ready, waiting and dead", "a discarded head frees its key"}},
		{"a discard that waits is forgotten", rule(func(r *rules) {
			r.honours = func(*operation, *row) bool { return false }
		}), []string{awaitsFailure}},
		{"what is held is not told", operating(func(*box) wrongOperator {
			return wrongOperator{report: func(_ string, r *outbox.ChangeReport) { r.Held = 0 }}
		}), []string{"a discard leaves what a live relay holds", "a discard that waits in vain leaves the message"}},
	}
}

func wrongPauses() []wrong {
	sound := soundRules()
	return []wrong{
		{"pauses are ignored", rule(func(r *rules) {
			r.pauses = func(outbox.Pause, string, string) bool { return false }
		}), []string{pausedAlone, "a paused destination is not claimed until it is resumed"}},
		{"destinations cannot be paused", rule(func(r *rules) {
			r.pauses = func(p outbox.Pause, topic, _ string) bool { return sound.pauses(p, topic, "") }
		}), []string{"a paused destination is not claimed until it is resumed"}},
		{"a paused topic holds no keys", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && !p.box.isPaused(r.Topic, p.query.Destination)
			}
		}), []string{pausedAlone}},
		{"a pause takes away what is in delivery", operating(func(b *box) wrongOperator {
			return wrongOperator{change: func(verb string, _ *outbox.Change) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, c := range b.claims {
					c.relay = outbox.ID{}
				}
			}}
		}), []string{"what is in delivery when a pause begins goes on"}},
	}
}

func wrongAnswers() []wrong {
	return []wrong{
		{"no key is held", operating(func(*box) wrongOperator {
			return wrongOperator{keys: func(k *outbox.Keys) { k.Holds = nil }}
		}), []string{"Keys tells what holds a key"}},
		{"nothing stands behind a head", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) { w.Head = nil }}
		}), []string{"Why leads from a message to what has to happen first"}},
		{"Why knows no faults", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) { w.Destinations = nil }}
		}), []string{"Why tells of a destination that no relay finds available"}},
		{"Why knows no destination of a message", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) {
				if w.Message != nil {
					w.Message.Destination = ""
				}
			}}
		}), []string{"Why tells of a destination that is gone, and of one that does not get the topic"}},
		{"Why knows no faults of what waits", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) {
				if w.Message != nil && w.Message.Due > 0 {
					w.Destinations = nil
				}
			}}
		}), []string{"Why tells of a destination that no relay finds available also while a message waits for its next attempt"}},
		{"Why counts no dead messages", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) { w.Dead = outbox.Depth{} }}
		}), []string{"Why tells of dead messages that do not hold their key, and of what has ended and is kept"}},
		{"Why knows nothing that has ended", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) { w.Ended = nil }}
		}), []string{"Why tells of dead messages that do not hold their key, and of what has ended and is kept"}},
		{"Why knows no pauses", operating(func(*box) wrongOperator {
			return wrongOperator{why: func(w *outbox.Why) { w.Pauses = nil }}
		}), []string{"Why tells of a pause, of nobody to deliver, and of what is not there"}},
	}
}

package outboxtest

import (
	"maps"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// onArchived makes stores that change what they keep.
func onArchived(change func(b *box, a *Archived)) func(h *harness) {
	return rule(func(r *rules) { r.archived = change })
}

func wrongArchives() []wrong {
	const kept = "what has ended is kept with what became of it"
	return []wrong{
		{"all that has ended was delivered", onArchived(func(_ *box, a *Archived) { a.State = outbox.StateDelivered }), []string{kept}},
		{"where messages went is not kept", onArchived(func(_ *box, a *Archived) { a.Destination = "" }),
			[]string{kept, "what is kept without payload has all but that"}},
		{"who discards is not kept", onArchived(func(_ *box, a *Archived) { a.Actor = "" }),
			[]string{"a discarded message is kept with who did it and why"}},
		{"messages are kept twice", onArchived(func(b *box, a *Archived) { b.archive = append(b.archive, *a) }),
			[]string{kept, "a refused result keeps nothing"}},
	}
}

// before makes operators with a box that is changed before a verb.
func before(verb string, change func(b *box)) func(h *harness) {
	return operating(func(b *box) wrongOperator {
		return wrongOperator{change: func(v string, _ *outbox.Change) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if v == verb {
				change(b)
			}
		}}
	})
}

func wrongPurges() []wrong {
	return []wrong{
		{"a purge takes what holds a key", rule(func(r *rules) {
			r.purges = func(outbox.State, bool, outbox.Change) bool { return true }
		}), []string{"a purge leaves what holds a key unless it is told to"}},
		{"a purge takes what is ready", before("purge", func(b *box) {
			maps.DeleteFunc(b.rows, func(_ int64, r *row) bool { return r.state == ready })
		}), []string{"a purge forgets what has ended and what is dead, and never the rest"}},
		{"a purge goes by no states", onChange(func(verb string, c *outbox.Change) {
			if verb == "purge" && c.States != nil && c.Check(verb) == nil {
				c.States, c.Limit, c.All = nil, 0, c.Topic == "" && c.OlderThan == 0
			}
		}), []string{"a purge goes by states, topic and age"}},
		{"operations are listed from the beginning", operating(func(*box) wrongOperator {
			return wrongOperator{operations: func(list []outbox.Operation) { slices.Reverse(list) }}
		}), []string{"what operators did is listed"}},
	}
}

func wrongReplays() []wrong {
	const gone = "gone"
	const again = "a replayed message is delivered again to its one destination, a generation on"
	const order = "replayed messages go before what is younger of their key, in order"
	return []wrong{
		{"replaying keeps the generation", onChanged("replay", func(r *row) { r.generation-- }), []string{again}},
		{"replayed messages go anywhere", onChanged("replay", func(r *row) { r.destination = "" }),
			[]string{again, "a replayed message holds its key in its destination only"}},
		{"replayed messages wait", onChanged("replay", func(r *row) { r.availableAt = r.availableAt.Add(time.Hour) }), []string{again, order}},
		{"replayed messages end", onChanged("replay", func(r *row) { r.expiresAt = r.availableAt }),
			[]string{"a replay outlives the life of its messages"}},
		{"what is under way is replayed too", before("replay", func(b *box) {
			maps.DeleteFunc(b.rows, func(_ int64, r *row) bool { return r.destination != "" })
		}), []string{"what is under way already is not replayed"}},
		{"what was given back goes anywhere", rule(func(r *rules) {
			r.meant = func(r *row, destination string) bool { return r.claim != nil || soundRules().meant(r, destination) }
		}), []string{"a bound message that was given back, or whose relay died, goes to its one destination"}},
		{"a binding does not end", onChange(func(_ string, c *outbox.Change) {
			if c.BoundTo != "" {
				c.ByRoute = false
			}
		}), []string{"a message that is bound to a destination which is gone waits until the routes decide again"}},
		{"a binding ends and with it the attempts", onChanged("retry", func(r *row) { r.attempts = 0 }),
			[]string{"the routes do not decide again about what a live relay holds"}},
		{"a binding ends and with it the suspicion", onChanged("retry", func(r *row) { r.suspicion = 0 }),
			[]string{"a suspect stays one when the routes decide again"}},
		{"what nobody would take is redriven", rule(func(r *rules) { r.strands = func(*box, *row) bool { return false } }),
			[]string{"a dead message that nobody would take where it is bound to is redriven by route only"}},
		{"a filter forgets what it is bound to", onChange(func(_ string, c *outbox.Change) {
			if c.BoundTo == gone && !c.ByRoute {
				c.BoundTo, c.All = "", c.Topic == ""
			}
		}), []string{"a filter means what is bound to a destination"}},
		{"what has no payload is replayed too", before("replay", func(b *box) { b.bare = false }),
			[]string{"what was kept without payload is not replayed"}},
	}
}

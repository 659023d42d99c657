package outboxtest

import (
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// wrongRules are stores that decide one thing wrongly.
func wrongRules() []wrong {
	return slices.Concat(wrongLeases(), wrongSuspects(), wrongTopics(), wrongOrder())
}

// rule plants by changing the rules.
func rule(change func(r *rules)) func(h *harness) {
	return func(h *harness) { change(&h.store.box.rules) }
}

func wrongLeases() []wrong {
	return []wrong{
		{"leases never lapse", rule(func(r *rules) {
			r.lapsed = func(*relay, time.Time) bool { return false }
		}), []string{"a lapsed relay's messages are claimable, with the lapse counted and no attempt"}},
		{"any relay may settle a claim", rule(func(r *rules) {
			r.owns = func(c *claim, _ outbox.ClaimRef) bool { return c != nil }
		}), []string{"a takeover of a part leaves the rest to whoever handles it"}},
		{"claim ids are used again", rule(func(r *rules) {
			r.nextClaim = func(b *box) int64 {
				id := int64(1)
				for b.claims[id] != nil {
					id++
				}
				return id
			}
		}), []string{"a claim's id is never used again"}},
		{"claims whose answer was lost are kept for ever", rule(func(r *rules) {
			r.forgotten = func(*claim, int64, []outbox.Token) bool { return false }
		}), []string{"the first beat that does not name a token keeps its claim, the second gives it back"}},
		{"the first beat gives back already", rule(func(r *rules) {
			r.forgotten = func(c *claim, _ int64, known []outbox.Token) bool { return !slices.Contains(known, c.token) }
		}), []string{"the first beat that does not name a token keeps its claim, the second gives it back"}},
		{"a heartbeat that was overtaken counts", rule(func(r *rules) {
			r.overtaken = func(int64, int64) bool { return false }
		}), []string{"a beat that was overtaken by a later one changes nothing"}},
		{"old claims are given back although they are named", rule(func(r *rules) {
			r.forgotten = func(c *claim, beat int64, _ []outbox.Token) bool { return c.beat < beat }
		}), []string{"a claim whose token is named is kept for ever"}},
		{"lapsed and fresh messages share a claim", rule(func(r *rules) {
			r.sameClaim = func(int, int) bool { return true }
		}), []string{
			"messages of lapsed claims are not mixed with fresh ones",
			"a key with lapsed and fresh messages goes on with its head's kind only",
		}},
	}
}

func wrongTopics() []wrong {
	sound := soundRules()
	return []wrong{
		{"all topics are claimed", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool { return r.isFree(p.box) }
		}), []string{"only the lane's topics are claimed, the first pattern decides", "each lane of a relay takes its own topics"}},
		{"closed topics are claimed", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool { return r.isFree(p.box) && p.lane.Topics.Contains(r.Topic) }
		}), []string{"closed topics are not claimed but hold their keys"}},
		{"closed topics do not hold their keys", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool { return sound.inOrder(p, r) && !p.query.Closed.Contains(r.Topic) }
		}), []string{"closed topics are not claimed but hold their keys"}},
		{"topics that nobody handles hold keys", rule(func(r *rules) {
			r.inOrder = func(_ *pick, r *row) bool { return r.holdsKey() }
		}), []string{"topics that nobody handles hold nothing", "without order, keys hold nothing"}},
		{"only the lane's own topics hold keys", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool { return r.holdsKey() && p.lane.Topics.Contains(r.Topic) }
		}), []string{"a key goes over the topics of a destination, wherever they are handled"}},
		{"messages that others hold are claimed", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool {
				return p.lane.Topics.Contains(r.Topic) && !p.query.Closed.Contains(r.Topic)
			}
		}), []string{
			"a claimed message is invisible for as long as its relay lives",
			"two relays that claim at the same time share everything and nothing twice",
			"giving back a part keeps the rest claimed",
			"a random schedule of failures keeps every promise",
		}},
		{"only a lane of the same destination takes over", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && (r.claim == nil || r.claim.destination == p.query.Destination)
			}
		}), []string{"messages of a destination that is gone are taken by who handles their topic now"}},
	}
}

func wrongOrder() []wrong {
	sound := soundRules()
	return []wrong{
		{"a claim holds no keys", rule(func(r *rules) {
			r.blocks = func(*claim, string, string) bool { return false }
		}), []string{
			"two claims never hold messages of one key",
			"a run that is cut goes on when it is settled",
			"an older message that commits late waits for the younger one in flight, then goes first",
			"a scheduled message that becomes due waits for the one in flight",
			"a given-back follower waits for the head in delivery",
			"keys stay in order over four relays at the same time",
			"a dead relay's messages keep their place",
			"a random schedule of failures keeps every promise",
		}},
		{"claims of other destinations hold keys", rule(func(r *rules) {
			r.blocks = func(c *claim, key, _ string) bool { return c.holds(key) }
		}), []string{"other destinations do not hold a key"}},
		{"what cannot be taken does not hold its key", rule(func(r *rules) {
			r.inOrder = func(*pick, *row) bool { return false }
		}), []string{
			"a retried message holds its key",
			"followers of a failed head come after it, in order, unspent",
			"a given-back message holds its key",
		}},
		{"scheduled messages hold their keys from publishing on", rule(func(r *rules) {
			r.inOrder = func(p *pick, r *row) bool { return r.state != dead && p.box.isOrdered(r.Topic, p.query.Destination) }
		}), []string{"a scheduled message holds nothing before its time"}},
		{"due messages come after all ready ones", rule(func(r *rules) {
			r.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && (r.state == ready || !p.box.hasReady())
			}
		}), []string{"a scheduled message takes its place when it is due"}},
		{"what lies below the floor is not seen", func(h *harness) {
			var floor int64
			below := func(r *row) bool { return r.seq < floor && r.claim == nil }
			h.store.box.rules.takes = func(p *pick, r *row) bool { return sound.takes(p, r) && !below(r) }
			h.store.box.rules.inOrder = func(p *pick, r *row) bool { return sound.inOrder(p, r) && !below(r) }
			hooked(func(b *box) wrongStore {
				return wrongStore{batch: each(func(_ outbox.Claim, d *outbox.Delivery) {
					b.mu.Lock()
					defer b.mu.Unlock()
					floor = max(floor, d.Seq)
				})}
			})(h)
		}, []string{"an older head far below everything joins"}},
	}
}

func (b *box) hasReady() bool {
	for _, r := range b.rows {
		if r.state == ready && r.claim == nil {
			return true
		}
	}
	return false
}

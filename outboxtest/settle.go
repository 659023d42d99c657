package outboxtest

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

// maxTextBytes is what is kept of an error's text.
const maxTextBytes = 2000

// Settle ends or moves claimed messages.
func (s *Store) Settle(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		if o.Kind < outbox.Delivered || o.Kind > outbox.GivenBack {
			return nil, fmt.Errorf("settle message %d: unknown outcome %d", o.Seq, o.Kind)
		}
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &settlement{box: b, now: b.now(), back: map[*claim]*claim{}}
	answers := make([]outbox.Settled, len(outcomes))
	for i, o := range outcomes {
		answers[i] = t.settle(o)
	}
	if t.wakes {
		b.notify()
	}
	return answers, nil
}

// settlement is one call of Settle.
type settlement struct {
	box   *box
	now   time.Time
	back  map[*claim]*claim // per claim, where its given-back messages go
	wakes bool
}

// settle applies the outcome if the claim is still the relay's and still lists the message.
func (t *settlement) settle(o outbox.Outcome) outbox.Settled {
	c, r := t.box.claims[o.Claim.ID], t.box.rows[o.Seq]
	ended := false // in its handler's transaction
	if r == nil && t.box.rules.owns(c, o.Claim) {
		r = c.row(o.Seq)
		ended = r != nil
	}
	gone := r == nil || r.state == dead
	switch {
	case !t.box.rules.owns(c, o.Claim) && gone:
		return outbox.SettledBefore
	case !t.box.rules.owns(c, o.Claim):
		return outbox.SettledFenced
	case gone || r.claim != c:
		return outbox.SettledBefore
	}
	key := r.heldKey
	t.box.unlist(r)
	if !ended {
		t.apply(o, c, r)
		t.box.honour(r)
	}
	t.wakes = t.wakes || key != "" && t.box.othersWaitFor(key, c)
	return outbox.SettledNow
}

func (t *settlement) apply(o outbox.Outcome, c *claim, r *row) {
	switch o.Kind {
	case outbox.Delivered, outbox.Dropped, outbox.Expired:
		t.box.keep(r, outbox.State(o.Kind.String()), Archived{Destination: c.destination, Detail: storable(o.Text)})
		delete(t.box.rows, r.seq)
		t.box.ended[o.Kind]++
	case outbox.Retried:
		r.fail(o)
		r.postpone(t.now.Add(o.Delay))
	case outbox.Died:
		r.fail(o)
		r.state, r.diedAt, r.holds = dead, t.now, o.Holds && r.Key != ""
	case outbox.Unlisted: // ready again, and one that waited holds its key since its first claim
	case outbox.GivenBack:
		t.giveBack(c, r)
	}
}

func (r *row) fail(o outbox.Outcome) {
	r.attempts, r.class, r.text, r.suspicion = o.Attempts, storable(o.Class), storable(o.Text), 0
	if o.Class == outbox.ClassCrash {
		r.suspicion = outbox.SuspectLapses
	}
}

// giveBack moves the message to a claim without a relay. The rest of its claim may still be in delivery.
func (t *settlement) giveBack(from *claim, r *row) {
	c := t.back[from]
	if c == nil {
		c = &claim{id: t.box.rules.nextClaim(t.box), destination: from.destination, lapses: from.lapses, at: t.now}
		t.back[from] = c
		t.box.claims[c.id] = c
	}
	c.rows = append(c.rows, r)
	r.claim = c
	t.wakes = true
}

// othersWaitFor reports whether the key goes on with a message that the lane of the claim does not handle.
func (b *box) othersWaitFor(key string, c *claim) bool {
	var topics outbox.TopicSet
	if r := b.relays[c.relay]; r != nil {
		lane, _ := r.lane(c.destination)
		topics = lane.Topics
	}
	for _, r := range b.rows {
		if r.Key == key && r.holdsKey() && !topics.Contains(r.Topic) {
			return true
		}
	}
	return false
}

// storable makes a text valid UTF-8 without NUL, as databases demand, and cuts it between characters.
func storable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxTextBytes {
		return text
	}
	end := maxTextBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

package storetest

import (
	"fmt"
	"slices"

	"github.com/outboxrelay/outbox"
)

// model is what the random schedule knows to be true. Labels are numbers in publish order.
type model struct {
	messages []*modelMessage          // in publish order
	taken    map[outbox.ClaimRef]bool // claims that another relay took messages from
	dead     int
}

type modelMessage struct {
	label    string
	key      string
	exists   bool // committed and not ended
	parked   bool // dead, and holds its key
	attempts int
	holder   *relay // alive; nil when nobody's
	delivery *outbox.Delivery
	listedBy outbox.ClaimRef // zero: no claim, or one that it was given back to
	lapses   int             // relays that died holding it, since it was settled last
	suspect  bool            // as which the holder got it
	retried  bool            // a store may keep the lapses from before a retry, or not
}

func newModel() *model { return &model{taken: map[outbox.ClaimRef]bool{}} }

func (mo *model) published(key string) (label string) {
	label = fmt.Sprintf("%06d", len(mo.messages))
	mo.messages = append(mo.messages, &modelMessage{label: label, key: key})
	return label
}

func (mo *model) find(label string) *modelMessage {
	i := slices.IndexFunc(mo.messages, func(m *modelMessage) bool { return m.label == label })
	return mo.messages[i]
}

func (mo *model) committed(labels []string) {
	for _, label := range labels {
		mo.find(label).exists = true
	}
}

// claimed checks a claim and takes it in.
func (mo *model) claimed(r *relay, c outbox.Claim) error {
	if err := mo.checkSuspects(r, c); err != nil {
		return err
	}
	inClaim := map[*modelMessage]bool{}
	for _, d := range c.Deliveries {
		inClaim[mo.find(string(d.Payload))] = true
	}
	for _, d := range c.Deliveries {
		m := mo.find(string(d.Payload))
		if err := mo.checkClaimed(m, d, c); err != nil {
			return err
		}
		if err := mo.checkOrder(m, inClaim); err != nil {
			return err
		}
	}
	for _, d := range c.Deliveries {
		m := mo.find(string(d.Payload))
		if m.listedBy != (outbox.ClaimRef{}) {
			mo.taken[m.listedBy] = true
		}
		m.holder, m.delivery, m.listedBy, m.suspect = r, d, d.Claim, c.Suspect()
	}
	return nil
}

// checkSuspects: they are alone, and a relay holds one.
func (mo *model) checkSuspects(r *relay, c outbox.Claim) error {
	if !c.Suspect() {
		return nil
	}
	if len(c.Deliveries) != 1 {
		return fmt.Errorf("a claim with %d lapses has the messages %q", c.Lapses, labels(c.Deliveries))
	}
	for _, m := range mo.messages {
		if m.holder == r && m.suspect {
			return fmt.Errorf("a relay holds the suspects %s and %s", m.label, c.Deliveries[0].Payload)
		}
	}
	return nil
}

// checkClaimed: it exists, nobody alive holds it, and its counts are right.
func (mo *model) checkClaimed(m *modelMessage, d *outbox.Delivery, c outbox.Claim) error {
	switch {
	case !m.exists:
		return fmt.Errorf("message %s was claimed and is not there", m.label)
	case m.holder != nil:
		return fmt.Errorf("message %s was claimed from a live relay", m.label)
	case d.Attempt != m.attempts+1:
		return fmt.Errorf("message %s has attempt %d after %d", m.label, d.Attempt, m.attempts)
	case c.Lapses < m.lapses || !m.retried && (c.Lapses > 0) != (m.lapses > 0):
		return fmt.Errorf("message %s lapsed %d times, its claim %d times", m.label, m.lapses, c.Lapses)
	}
	return nil
}

// checkOrder: no live relay holds the key, and nothing older of it is outside the claim.
func (mo *model) checkOrder(m *modelMessage, inClaim map[*modelMessage]bool) error {
	for _, other := range mo.messages {
		switch {
		case m.key == "" || other.key != m.key:
		case other.parked && other.label < m.label:
			return fmt.Errorf("message %s was claimed although %s of its key is parked", m.label, other.label)
		case !other.exists || inClaim[other]:
		case other.holder != nil:
			return fmt.Errorf("message %s was claimed while %s of its key is in flight", m.label, other.label)
		case other.label < m.label:
			return fmt.Errorf("message %s was claimed before %s of its key", m.label, other.label)
		}
	}
	return nil
}

// heldBy returns what a relay holds.
func (mo *model) heldBy(r *relay) []*outbox.Delivery {
	var ds []*outbox.Delivery
	for _, m := range mo.messages {
		if m.holder == r {
			ds = append(ds, m.delivery)
		}
	}
	return ds
}

// heads returns what a relay may settle next: of each key the oldest.
func (mo *model) heads(r *relay) []*modelMessage {
	var heads []*modelMessage
	keys := map[string]bool{}
	for _, m := range mo.messages {
		if m.holder != r || keys[m.key] {
			continue
		}
		keys[m.key] = m.key != ""
		heads = append(heads, m)
	}
	return heads
}

// followers returns the younger messages of the key in the same claim.
func (mo *model) followers(head *modelMessage) []*outbox.Delivery {
	var ds []*outbox.Delivery
	for _, m := range mo.messages {
		if head.key != "" && m.key == head.key && m != head && m.holder == head.holder {
			ds = append(ds, m.delivery)
		}
	}
	return ds
}

func (mo *model) settled(os []outbox.Outcome) {
	for _, o := range os {
		m := mo.bySeq(o.Seq)
		m.holder, m.listedBy = nil, outbox.ClaimRef{}
		switch o.Kind {
		case outbox.GivenBack:
			continue
		case outbox.Retried:
			m.attempts, m.retried = o.Attempts, m.retried || m.lapses > 0
		case outbox.Unlisted:
		case outbox.Died:
			m.exists, m.parked = false, o.Holds && m.key != ""
			mo.dead++
		default:
			m.exists = false
		}
		m.lapses = 0
	}
}

func (mo *model) bySeq(seq int64) *modelMessage {
	i := slices.IndexFunc(mo.messages, func(m *modelMessage) bool {
		return m.delivery != nil && m.delivery.Seq == seq
	})
	return mo.messages[i]
}

func (mo *model) givenBack(ds []*outbox.Delivery) {
	for _, d := range ds {
		mo.bySeq(d.Seq).holder = nil
	}
}

// died takes a killed relay's messages from it and returns them.
func (mo *model) died(r *relay) []*outbox.Delivery {
	ds := mo.heldBy(r)
	lapses := map[int64]int{}
	for _, d := range ds {
		m := mo.bySeq(d.Seq)
		lapses[d.Claim.ID] = max(lapses[d.Claim.ID], m.lapses+1)
		m.holder = nil
	}
	for _, d := range ds {
		mo.bySeq(d.Seq).lapses = lapses[d.Claim.ID]
	}
	return ds
}

// settledLate checks the answer to a result of a killed relay: it counts if and only if nobody took over.
func (mo *model) settledLate(o outbox.Outcome, answer outbox.Settled) error {
	m := mo.bySeq(o.Seq)
	taken := mo.taken[o.Claim]
	switch {
	case taken && answer == outbox.SettledNow:
		return fmt.Errorf("message %s was settled through a claim that was taken over", m.label)
	case !taken && answer != outbox.SettledNow:
		return fmt.Errorf("the late result of message %s is %v although nobody took over", m.label, answer)
	case !taken:
		mo.settled([]outbox.Outcome{o})
	}
	return nil
}

// left counts what is to be delivered, and what waits behind a parked message.
func (mo *model) left() (deliverable, behind int) {
	parked := map[string]bool{}
	for _, m := range mo.messages {
		switch {
		case m.parked:
			parked[m.key] = true
		case m.exists && parked[m.key]:
			behind++
		case m.exists:
			deliverable++
		}
	}
	return deliverable, behind
}

// parks reports whether a key is parked.
func (mo *model) parks() bool {
	return slices.ContainsFunc(mo.messages, func(m *modelMessage) bool { return m.parked })
}

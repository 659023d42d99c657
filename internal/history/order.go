package history

import (
	"cmp"
	"slices"
)

// group is what one destination must deliver one after another: the messages of a key, or a single message.
type group struct {
	destination, name string
	ordered           bool // name is a key
	deliveries        []*delivery
}

// groups sorts the deliveries of the history into groups, each in order of time.
func (c *checker) groups() []*group {
	type id struct {
		destination, name string
		ordered           bool
	}
	byID := map[id]*group{}
	var all []*group
	for _, m := range c.order {
		for _, d := range m.deliveries {
			k := id{d.Destination, m.id, false}
			if d.Key != "" && c.policyOf(d.Topic) != None {
				k.name, k.ordered = d.Key, true
			}
			g := byID[k]
			if g == nil {
				g = &group{destination: k.destination, name: k.name, ordered: k.ordered}
				byID[k] = g
				all = append(all, g)
			}
			g.deliveries = append(g.deliveries, d)
		}
	}
	for _, g := range all {
		slices.SortStableFunc(g.deliveries, func(a, b *delivery) int { return cmp.Compare(a.At, b.At) })
	}
	return all
}

// concurrent: of a group one delivery is in flight at a time, while leases hold.
func (c *checker) concurrent(g *group) {
	var open []*delivery
	for _, d := range g.deliveries {
		// One that is over, or whose lease did not hold up to now, proves nothing any more.
		open = slices.DeleteFunc(open, func(o *delivery) bool {
			return o.lastOpen <= d.At || !c.holds(o, d.At)
		})
		if !c.holds(d, d.At) {
			continue
		}
		if len(open) > 0 {
			o := open[0]
			c.report(Concurrent, []*Event{o.Event, d.Event}, "%s began message %s in %s while %s had message %s in flight there%s, and both leases held",
				d.Process, d.Message, g.destination, o.Process, o.Message, g.ofKey())
		}
		open = append(open, d)
	}
}

func (g *group) ofKey() string {
	if g.ordered {
		return ", both of key " + g.name
	}
	return ""
}

// overtaken: no delivery begins while an older message of the key is pending that its claim had to see.
// It walks through time with a tree over the key's messages in seq order, which holds for each pending one
// since when it is.
func (c *checker) overtaken(g *group) {
	ranked, rank := rankMessages(g)
	tree := newMinTree(len(ranked))
	for _, s := range c.steps(g, ranked, rank) {
		if s.delivery == nil {
			tree.set(s.rank, s.since)
			continue
		}
		d := s.delivery
		older := tree.below(s.rank, c.claimSaw(d))
		if older < 0 || !c.holds(d, d.At) {
			continue
		}
		o := ranked[older]
		c.report(Overtaken, []*Event{o.publishing, o.committed, d.message.publishing, d.Event},
			"message %s (seq %d, key %s) was begun by %s in %s while the older message %s (seq %d) of the key was pending",
			d.Message, d.Seq, g.name, d.Process, g.destination, o.id, o.seq())
	}
}

// claimSaw is a time at which the delivered message's claim certainly had not been made: what happened
// before, it saw.
func (c *checker) claimSaw(d *delivery) int64 {
	return max(d.message.publishing0().At, c.claims[claim{d.Relay, d.Claim}])
}

func rankMessages(g *group) ([]*message, map[*message]int) {
	rank := map[*message]int{}
	var ranked []*message
	for _, d := range g.deliveries {
		if _, known := rank[d.message]; !known {
			rank[d.message] = 0
			ranked = append(ranked, d.message)
		}
	}
	slices.SortStableFunc(ranked, func(a, b *message) int { return cmp.Compare(a.seq(), b.seq()) })
	for i, m := range ranked {
		rank[m] = i
	}
	return ranked, rank
}

// step is a message that becomes pending (since), is over (since for ever), or a delivery that begins.
type step struct {
	at, since int64
	rank      int
	delivery  *delivery
}

// steps lists a key's steps in order of time; at the same time a delivery is the last.
func (c *checker) steps(g *group, ranked []*message, rank map[*message]int) []step {
	var all []step
	for i, m := range ranked {
		for _, p := range m.pending(c.policy(m)) {
			if p.to <= p.from {
				continue
			}
			all = append(all, step{at: p.from, since: p.from, rank: i})
			if p.to != forever {
				all = append(all, step{at: p.to, since: forever, rank: i})
			}
		}
	}
	for _, d := range g.deliveries {
		all = append(all, step{at: d.At, rank: rank[d.message], delivery: d})
	}
	slices.SortStableFunc(all, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order(), b.order()))
	})
	return all
}

func (s step) order() int {
	if s.delivery != nil {
		return 1
	}
	return 0
}

// minTree is a segment tree of times; forever stands for none.
type minTree struct {
	leaves int
	least  []int64
}

func newMinTree(n int) *minTree {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	t := &minTree{leaves: leaves, least: make([]int64, 2*leaves)}
	for i := range t.least {
		t.least[i] = forever
	}
	return t
}

func (t *minTree) set(i int, v int64) {
	i += t.leaves
	t.least[i] = v
	for i /= 2; i > 0; i /= 2 {
		t.least[i] = min(t.least[2*i], t.least[2*i+1])
	}
}

// below finds the first index under end whose time is before limit; −1 if there is none.
func (t *minTree) below(end int, limit int64) int {
	i := t.descend(1, limit)
	if i >= end {
		return -1
	}
	return i
}

func (t *minTree) descend(node int, limit int64) int {
	if t.least[node] >= limit {
		return -1
	}
	for node < t.leaves {
		node *= 2
		if t.least[node] >= limit {
			node++
		}
	}
	return node - t.leaves
}

package outbox

import "sync/atomic"

// Counts tells what became of the messages that a relay settled.
type Counts struct {
	Delivered, Dropped, Expired int64
	Retried, Dead               int64
	GivenBack                   int64 // to be delivered again, without an attempt spent
	Fenced                      int64 // results refused, because another relay had taken the message over
}

// counters counts settled outcomes by kind.
type counters struct {
	kinds   [len(outcomeNames)]atomic.Int64
	fenced  atomic.Int64
	latency atomic.Int64 // microseconds from publishing to acceptance, of all that were accepted together
}

func (c *counters) count(k OutcomeKind) { c.kinds[k].Add(1) }

func (c *counters) counts() Counts {
	return Counts{
		Delivered: c.kinds[Delivered].Load(),
		Dropped:   c.kinds[Dropped].Load(),
		Expired:   c.kinds[Expired].Load(),
		Retried:   c.kinds[Retried].Load(),
		Dead:      c.kinds[Died].Load(),
		GivenBack: c.kinds[GivenBack].Load(),
		Fenced:    c.fenced.Load(),
	}
}

// values are the counters as heartbeats tell them.
func (c *counters) values() map[string]int64 {
	n := c.counts()
	return map[string]int64{
		"delivered": n.Delivered, "dropped": n.Dropped, "expired": n.Expired, "retried": n.Retried,
		"dead": n.Dead, "given_back": n.GivenBack, "fenced": n.Fenced, "latency_microseconds": c.latency.Load(),
	}
}

// since returns what was counted after an earlier count.
func (n Counts) since(before Counts) Counts {
	return Counts{
		Delivered: n.Delivered - before.Delivered,
		Dropped:   n.Dropped - before.Dropped,
		Expired:   n.Expired - before.Expired,
		Retried:   n.Retried - before.Retried,
		Dead:      n.Dead - before.Dead,
		GivenBack: n.GivenBack - before.GivenBack,
		Fenced:    n.Fenced - before.Fenced,
	}
}

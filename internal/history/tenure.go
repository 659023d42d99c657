package history

import "sort"

// tenures answers whether a relay provably held its lease: a claim of such a relay must not be touched.
type tenures struct {
	relays    map[string]*tenure
	processes map[string]*life
	disturbed []int64
}

// tenure is a relay's time under one id; zero times have not come.
type tenure struct {
	process string
	leased  bool   // the relay logs its leases
	leases  []span // without gaps inside, in order
	lost    int64
	stopped int64
}

// life is what the harness did to a process.
type life struct {
	dead, exited, suspended int64
}

type span struct{ from, to int64 }

func newTenures() *tenures {
	return &tenures{relays: map[string]*tenure{}, processes: map[string]*life{}}
}

func (t *tenures) add(e *Event) {
	switch e.Kind {
	case Killed, Died:
		first(&t.life(e.Process).dead, e.At)
	case Exited:
		first(&t.life(e.Process).exited, e.At)
	case Suspended:
		first(&t.life(e.Process).suspended, e.At)
	case Disturbed:
		t.disturbed = append(t.disturbed, e.At)
	case Leased:
		t.relay(e).extend(e.At, e.Until)
	case LeaseLost:
		first(&t.relay(e).lost, e.At)
	case RelayStopped:
		first(&t.relay(e).stopped, e.At)
	case RelayStarted, Claimed, Begun:
		t.relay(e)
	}
}

func first(at *int64, now int64) {
	if *at == 0 {
		*at = now
	}
}

func (t *tenures) life(process string) *life {
	l := t.processes[process]
	if l == nil {
		l = &life{}
		t.processes[process] = l
	}
	return l
}

func (t *tenures) relay(e *Event) *tenure {
	r := t.relays[e.Relay]
	if r == nil {
		r = &tenure{process: e.Process}
		t.relays[e.Relay] = r
	}
	return r
}

// extend joins the lease to the one before if that had not ended when the extension was known.
func (r *tenure) extend(from, to int64) {
	r.leased = true
	if n := len(r.leases); n > 0 && from <= r.leases[n-1].to {
		r.leases[n-1].to = max(r.leases[n-1].to, to)
		return
	}
	r.leases = append(r.leases, span{from, to})
}

// held reports whether the relay provably held its lease all the time between the two, both included.
func (t *tenures) held(relay string, from, to int64) bool {
	r := t.relays[relay]
	if r == nil {
		return false
	}
	l := t.life(r.process)
	if come(l.dead, to) || come(l.exited, to) || come(r.stopped, to) || t.disturbedIn(from, to) {
		return false
	}
	if !r.leased {
		// Nobody knows since when a lease is lost, nor what a suspended process has lost.
		return r.lost == 0 && !come(l.suspended, to)
	}
	return !come(r.lost, to) && r.covers(from, to)
}

// lapsed reports whether the relay may have left claims behind between the two. One that stopped as it should
// has settled what was accepted and given back the rest: that is no excuse.
func (t *tenures) lapsed(relay string, from, to int64) bool {
	r := t.relays[relay]
	if r == nil {
		return true
	}
	for _, end := range []int64{r.stopped, t.life(r.process).exited} {
		if come(end, to) {
			to = max(from, end-1)
		}
	}
	return !t.held(relay, from, to)
}

func come(at, now int64) bool { return at != 0 && at <= now }

func (t *tenures) disturbedIn(from, to int64) bool {
	i := sort.Search(len(t.disturbed), func(i int) bool { return t.disturbed[i] >= from })
	return i < len(t.disturbed) && t.disturbed[i] <= to
}

func (r *tenure) covers(from, to int64) bool {
	i := sort.Search(len(r.leases), func(i int) bool { return r.leases[i].to >= to })
	return i < len(r.leases) && r.leases[i].from <= from
}

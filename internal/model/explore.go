package model

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
)

// Fault is a state that breaks a guarantee, and the shortest way there.
type Fault struct {
	Err   error
	Steps []Step
}

func (f *Fault) Error() string {
	var b strings.Builder
	for i, s := range f.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	return f.Err.Error() + ", after:\n" + b.String()
}

func (f *Fault) Unwrap() error { return f.Err }

// ErrTooMany: there are more states than were allowed.
var ErrTooMany = errors.New("too many states")

// Explored says what was visited.
type Explored struct {
	States int
	Depth  int
	Steps  map[Kind]int
}

// Explore visits all states that can be reached, breadth first. The error is a *Fault, or ErrTooMany when there are more
// than most. From each state everything that was published must still come to be delivered, when nothing more goes wrong.
//
// States are told apart by 64 bits of a hash. Two of a million share them with a probability below 10^-7, and then one of them is
// not visited.
func Explore(c *Config, most int) (Explored, error) {
	e := &explorer{Config: c, most: most, seed: maphash.MakeSeed(), seen: map[uint64]int32{}, drained: map[uint64]bool{},
		done: Explored{Steps: map[Kind]int{}}}
	start := c.start()
	start.normal()
	e.visit(node{parent: -1}, &start, nil)
	for len(e.next) > 0 && e.fault == nil {
		e.done.Depth++
		level := e.next
		e.next = nil
		for i := range level {
			e.expand(&level[i])
			if e.fault != nil {
				break
			}
		}
	}
	e.done.States = len(e.nodes)
	return e.done, e.fault
}

// node is a visited state: how it was reached.
type node struct {
	parent int32
	step   Step
}

// front is a state whose steps have not been tried.
type front struct {
	at    int32
	state State
}

type explorer struct {
	*Config
	most    int
	seed    maphash.Seed
	seen    map[uint64]int32
	drained map[uint64]bool
	nodes   []node
	next    []front
	done    Explored
	fault   error
}

func (e *explorer) expand(f *front) {
	t := turn{Config: e.Config, from: &f.state, emit: func(step Step, s *State, fault error) {
		if e.fault == nil {
			e.done.Steps[step.Do]++
			e.visit(node{f.at, step}, s, fault)
		}
	}}
	t.steps()
}

func (e *explorer) visit(n node, s *State, fault error) {
	hash := e.hash(s)
	if _, seen := e.seen[hash]; seen && fault == nil {
		return
	}
	at := int32(len(e.nodes))
	e.seen[hash] = at
	e.nodes = append(e.nodes, n)
	if fault == nil {
		fault = e.drain(*s)
	}
	switch {
	case fault != nil:
		e.fault = e.trace(at, fault)
	case len(e.nodes) > e.most:
		e.fault = ErrTooMany
	default:
		e.next = append(e.next, front{at, *s})
	}
}

// hash is that of the state, and of the one in which the two processes have changed places: they are alike.
func (e *explorer) hash(s *State) uint64 {
	own := maphash.Comparable(e.seed, *s)
	if e.Alone {
		return own
	}
	other := s.swapped()
	return min(own, maphash.Comparable(e.seed, other))
}

func (e *explorer) trace(at int32, err error) *Fault {
	f := &Fault{Err: err}
	for ; e.nodes[at].parent >= 0; at = e.nodes[at].parent {
		f.Steps = append([]Step{e.nodes[at].step}, f.Steps...)
	}
	return f
}

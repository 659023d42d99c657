package history

import (
	"slices"
	"strings"
	"testing"
)

// The planted histories are written as short lines: who does what with which message, at the time of the
// line's number times ten.
//
//	p            the publisher
//	A, B         relays, each in a process of its own, "proc-A" and "proc-B"
//	m1, m2 …     messages; their seqs are their numbers; all have key k unless the message is written u1, u2 …
func plant(t *testing.T, lines string) []Event {
	t.Helper()
	var events []Event
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		words := strings.Fields(line)
		at := int64(i+1) * 10
		e := plantedEvent(t, words, at)
		if err := e.check(); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func plantedEvent(t *testing.T, words []string, at int64) Event {
	t.Helper()
	who, what, rest := words[0], words[1], words[2:]
	e := Event{At: at, Process: "proc-" + who}
	options := map[string]string{}
	for _, w := range rest {
		if name, value, ok := strings.Cut(w, "="); ok {
			options[name] = value
		} else {
			e.Message, e.Seq = w, number(w[1:])
			e.Topic, e.Payload = "t", "hash-"+w
			if w[0] == 'm' {
				e.Key = "k"
			}
		}
	}
	if len(who) == 1 && who != "p" && who != "h" {
		e.Relay, e.Destination, e.Claim = who, "d", int64(who[0])
	}
	kinds := map[string]Kind{
		"publish": Publishing, "commit": Committed, "rollback": RolledBack,
		"begin": Begun, "accept": Accepted, "fail": Failed, "claim": Claimed, "lease": Leased, "lost": LeaseLost,
		"settling": Settling, "settled": Settled, "fenced": Fenced, "discard": Discarded, "redrive": Redriven,
		"killed": Killed, "died": Died, "suspended": Suspended, "continued": Continued, "exited": Exited,
		"disturbed": Disturbed, "stop": RelayStopped, "run": RelayStarted,
	}
	e.Kind = kinds[what]
	e.apply(t, options)
	return e
}

func (e *Event) apply(t *testing.T, options map[string]string) {
	t.Helper()
	for name, value := range options {
		switch name {
		case "key":
			e.Key = value
		case "payload":
			e.Payload = value
		case "topic":
			e.Topic = value
		case "seq":
			e.Seq = number(value)
		case "claim":
			e.Claim = number(value)
		case "attempt":
			e.Attempt = number(value)
		case "dest":
			e.Destination = value
		case "outcome":
			e.Outcome = value
		case "since":
			e.Since = number(value)
		case "until":
			e.Until = number(value)
		case "repeated":
			e.Repeated = true
		case "deferred":
			e.Deferred = true
		default:
			t.Fatalf("option %q", name)
		}
	}
}

func number(s string) int64 {
	n := int64(0)
	for _, r := range s {
		n = n*10 + int64(r-'0')
	}
	return n
}

// kindsOf is what Check found, each kind once, sorted.
func kindsOf(r Report) []ViolationKind {
	var kinds []ViolationKind
	for _, v := range r.Violations {
		kinds = append(kinds, v.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

type planted struct {
	name    string
	lines   string
	options Options
	want    []ViolationKind
}

func (p planted) run(t *testing.T) {
	report := Check(plant(t, p.lines), p.options)
	if got := kindsOf(report); !slices.Equal(got, p.want) {
		t.Fatalf("found %v, want %v\n%v", got, p.want, report.Err())
	}
	for _, v := range report.Violations {
		if len(v.Events) == 0 || v.Text == "" {
			t.Errorf("%s has no proof or no text: %+v", v.Kind, v)
		}
	}
}

const once = `
p publish m1
p commit m1
A begin m1
A accept m1
A settled m1 outcome=delivered`

func TestCheckFindsWhatWasPlanted(t *testing.T) {
	for _, p := range []planted{
		{name: "committed and never delivered", want: []ViolationKind{Lost}, lines: `
p publish m1
p commit m1`},
		{name: "failed and never again", want: []ViolationKind{Lost}, lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=retried
A settled m1 outcome=retried`},
		{name: "the settlement as dead was refused", want: []ViolationKind{Lost}, lines: `
p publish m1
p commit m1
A lease until=25
A begin m1
A fail m1
A settling m1 outcome=died
A fenced m1 outcome=died`},
		{name: "redriven and never again", want: []ViolationKind{Lost}, lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
h redrive m1`},
		{name: "delivered without being published", want: []ViolationKind{Phantom}, lines: `
A begin m1
A accept m1`},
		{name: "rolled back and delivered", want: []ViolationKind{Phantom}, lines: `
p publish m1
p rollback m1
A begin m1
A accept m1`},
		{name: "delivered, then rolled back", want: []ViolationKind{Phantom}, lines: `
p publish m1
A begin m1
A accept m1
p rollback m1`},
		{name: "delivered before the commit began", want: []ViolationKind{Early}, lines: `
A begin m1
A accept m1
p publish m1
p commit m1`},
		{name: "another payload", want: []ViolationKind{Changed}, lines: strings.Replace(once, "begin m1", "begin m1 payload=x", 1)},
		{name: "another key", want: []ViolationKind{Changed}, lines: strings.Replace(once, "begin m1", "begin m1 key=x", 1)},
		{name: "another topic", want: []ViolationKind{Changed}, lines: strings.Replace(once, "begin m1", "begin m1 topic=x", 1)},
		{name: "another seq", want: []ViolationKind{Changed}, lines: strings.Replace(once, "begin m1", "begin m1 seq=7", 1)},
		{name: "another seq the second time", want: []ViolationKind{Changed}, lines: `
p publish m1 seq=0
p commit m1
A begin m1
A fail m1
A begin m1 seq=9
A accept m1`},
		{name: "two of a key at once in two relays", want: []ViolationKind{Concurrent, Overtaken}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
B begin m2
A accept m1
B accept m2`},
		{name: "two of a key at once in one relay", want: []ViolationKind{Concurrent}, lines: `
p publish m1
p publish m2
p commit m2
A claim
A begin m2
p commit m1
A begin m1
A accept m2
A accept m1`},
		{name: "one message at once in two relays", want: []ViolationKind{Concurrent}, lines: `
p publish u1
p commit u1
A begin u1
B begin u1
B accept u1
A accept u1`},
		{name: "two of a key at once while the leases hold as logged", want: []ViolationKind{Concurrent, Overtaken}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A lease until=80
B lease until=200
A begin m1
B begin m2
A accept m1
B accept m2`},
		{name: "an early loss of the lease excuses nothing before it", want: []ViolationKind{Concurrent}, lines: `
p publish m1
p commit m1
A lease until=200
B lease until=200
A begin m1
B begin m1
B accept m1
A lost
A fail m1`},
		{name: "the younger first", want: []ViolationKind{Overtaken}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "a raced lower seq that the claim had to see", want: []ViolationKind{Overtaken}, lines: `
p publish m2
p commit m2
p publish m1
p commit m1
A claim since=45
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "a failed head is passed", want: []ViolationKind{Overtaken}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "a redriven head is passed", want: []ViolationKind{Overtaken}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
h redrive m1
A claim
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "a scheduled head that failed is passed", want: []ViolationKind{Overtaken}, lines: `
p publish m1 deferred=1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
B claim
B begin m2
B accept m2
A begin m1
A accept m1`},
		{name: "accepted, and delivered again by the same relay", want: []ViolationKind{Duplicate}, lines: `
p publish m1
p commit m1
A begin m1
A accept m1
A begin m1
A accept m1`},
		{name: "accepted, and delivered again by another", want: []ViolationKind{Duplicate}, lines: `
p publish m1
p commit m1
A begin m1
A accept m1
B begin m1
B accept m1`},
		{name: "settled, and delivered again after a kill", want: []ViolationKind{Duplicate}, lines: once + `
h disturbed
A killed
B begin m1
B accept m1`},
		{name: "dead, and delivered again", want: []ViolationKind{Duplicate}, lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
B begin m1
B accept m1`},
		{name: "stopped as it should, but left what was accepted", want: []ViolationKind{Duplicate}, lines: `
p publish m1
p commit m1
A lease until=300
B lease until=300
A begin m1
A accept m1
A stop
A exited
B begin m1
B accept m1`},
		{name: "a settlement is accepted after a takeover", want: []ViolationKind{LateSettle}, lines: `
p publish m1
p commit m1
A lease until=55
B lease until=900
A begin m1
A accept m1
B begin m1
B fail m1
A settled m1 outcome=delivered since=85`},
		{name: "a retry is accepted after a takeover", want: []ViolationKind{LateSettle}, lines: `
p publish m1
p commit m1
A lease until=55
B lease until=900
A begin m1
A fail m1
B begin m1
A settling m1 outcome=retried
A settled m1 outcome=retried
B accept m1`},
		{name: "a settlement for a claim that a crash undid", want: []ViolationKind{LateSettle}, lines: `
p publish m1
p commit m1
A begin m1
h disturbed
B begin m1
A accept m1
A settled m1 outcome=delivered
B accept m1`},
		{name: "settled as delivered, never accepted", want: []ViolationKind{Lost, Unaccepted}, lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settled m1 outcome=delivered`},
		{name: "a settlement is refused for nothing", want: []ViolationKind{Lost, WrongFence}, lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=retried
A fenced m1 outcome=retried`},
	} {
		t.Run(p.name, p.run)
	}
}

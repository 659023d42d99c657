package history

import (
	"strings"
	"testing"
)

func all(o Order) func(string) Order { return func(string) Order { return o } }

// perTopic is the order that the topic's name says.
func perTopic(topic string) Order {
	return map[string]Order{"block": Block, "park": Park, "none": None}[topic]
}

// deadHead is a head that failed for good, and a follower that came after it.
const deadHead = `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
A claim
A begin m2
A accept m2`

// What a dead head means for its follower, by the policy of the head's topic.
func TestCheckOfPolicies(t *testing.T) {
	head := func(topic string) string {
		return strings.NewReplacer("publish m1", "publish m1 topic="+topic, "begin m1", "begin m1 topic="+topic).Replace(deadHead)
	}
	byTopic := Options{Order: perTopic}
	for _, p := range []planted{
		{name: "skip: it goes on", lines: deadHead},
		{name: "park: it passes a parked head", want: []ViolationKind{Overtaken}, options: byTopic, lines: head("park")},
		{name: "the follower's own policy does not matter", options: byTopic, lines: strings.NewReplacer("publish m2", "publish m2 topic=park", "begin m2", "begin m2 topic=park").Replace(deadHead)},
		{name: "block: it passes a head that must not be dead", want: []ViolationKind{Overtaken, Surrendered}, options: byTopic, lines: head("block")},
		{name: "none: a head of a topic without order holds nothing", options: byTopic, lines: head("none")},
		{name: "block: dead after its life", options: Options{Order: all(Block)}, lines: `
p publish m1 until=15
p commit m1
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died`},
		{name: "block: dead without a key, which blocks none", options: Options{Order: all(Block)}, lines: `
p publish u1
p commit u1
A begin u1
A fail u1
A settling u1 outcome=died
A settled u1 outcome=died`},
		{name: "park: discarded, it goes on", options: Options{Order: all(Park)}, lines: strings.Replace(deadHead, "A claim", "h discard m1\nA claim", 1)},
		{name: "park: redriven and passed", want: []ViolationKind{Overtaken}, options: Options{Order: all(Park)}, lines: strings.Replace(deadHead, "A claim", "h redrive m1\nA claim", 1) + `
A begin m1
A accept m1`},
		{name: "park: redriven, and it goes on", options: Options{Order: all(Park)}, lines: strings.Replace(deadHead, "A claim", "h redrive m1\nA begin m1\nA accept m1\nA claim", 1)},
		{name: "park: redriven, dead again, and passed", want: []ViolationKind{Overtaken}, options: Options{Order: all(Park)},
			lines: strings.Replace(deadHead, "A claim", "h redrive m1\nA begin m1\nA fail m1\nA settling m1 outcome=died\nA settled m1 outcome=died\nA claim", 1)},
		{name: "block: retried and passed", want: []ViolationKind{Overtaken}, options: Options{Order: all(Block)},
			lines: strings.ReplaceAll(deadHead, "died", "retried") + "\nA begin m1\nA accept m1"},
		{name: "block: expired, it goes on", options: Options{Order: all(Block)}, lines: strings.ReplaceAll(deadHead, "died", "expired")},
		{name: "expired before its follower, without a word", options: Options{Undrained: true}, lines: `
p publish m1 until=85
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=retried
A settled m1 outcome=retried
A claim
A begin m2
A accept m2`},
		{name: "passed before it expired", want: []ViolationKind{Overtaken}, options: Options{Undrained: true}, lines: `
p publish m1 until=90
p commit m1
p publish m2
p commit m2
A claim
A begin m2
A accept m2
B begin m1
B accept m1`},
		{name: "expired and never settled", want: []ViolationKind{Lost}, lines: `
p publish m1 until=15
p commit m1`},
		{name: "park: dropped, it goes on", options: Options{Order: all(Park)}, lines: strings.ReplaceAll(deadHead, "died", "dropped")},
	} {
		t.Run(p.name, p.run)
	}
}

func TestCheckOfOperators(t *testing.T) {
	for _, p := range []planted{
		{name: "discarded, and delivered by a later claim", want: []ViolationKind{Revived}, lines: `
p publish m1
p commit m1
h discard m1
A claim
A begin m1
A accept m1`},
		{name: "discarded in flight", want: []ViolationKind{Revived}, lines: `
p publish m1
p commit m1
A begin m1
h discard m1 since=35
A accept m1`},
		{name: "discarded in flight in a relay that was killed", lines: `
p publish m1
p commit m1
A begin m1
A killed
h discard m1 since=45`},
		{name: "discarded when its delivery had ended", lines: `
p publish m1
p commit m1
A begin m1
A fail m1
h discard m1`},
		{name: "discarded when it was claimed already", lines: `
p publish m1
p commit m1
A claim
h discard m1
A begin m1
A accept m1`},
		{name: "discarded by a request that came after the claim's", lines: `
p publish m1
p commit m1
h discard m1
A claim since=25
A begin m1
A accept m1`},
	} {
		t.Run(p.name, p.run)
	}
}

func TestCheckOfAttempts(t *testing.T) {
	for _, p := range []planted{
		{name: "a kill has spent one", want: []ViolationKind{Spent}, lines: `
p publish m1
p commit m1
A begin m1 attempt=1
A killed
B begin m1 attempt=2
B accept m1`},
		{name: "what is given back has spent one", want: []ViolationKind{Spent}, lines: `
p publish m1
p commit m1
A begin m1 attempt=1
A fail m1
A settling m1 outcome=given_back
A settled m1 outcome=given_back
B begin m1 attempt=2
B accept m1`},
		{name: "a settlement that was refused has spent one", want: []ViolationKind{Spent}, lines: `
p publish m1
p commit m1
A lease until=25
A begin m1 attempt=1
A fail m1
A settling m1 outcome=retried
A fenced m1 outcome=retried
B begin m1 attempt=2
B accept m1`},
		{name: "failures spend them, also one whose answer was lost", lines: `
p publish m1
p commit m1
A begin m1 attempt=1
A fail m1
A settling m1 outcome=retried
A settled m1 outcome=retried
A begin m1 attempt=2
A fail m1
A settling m1 outcome=retried
A killed
B begin m1 attempt=3
B accept m1`},
		{name: "the same attempt again after a kill", lines: `
p publish m1
p commit m1
A begin m1 attempt=1
A killed
B begin m1 attempt=1
B accept m1`},
	} {
		t.Run(p.name, p.run)
	}
}

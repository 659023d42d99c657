package schedule

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox/internal/history"
)

// Plan is one random schedule.
type Plan struct {
	Relays       int
	Slots        int
	Destinations int            // topics are dealt out to them
	Deal         map[string]int // the destination of each topic
	Steps        []Step
}

// Step is one thing that is done while the relays run.
type Step struct {
	After    time.Duration // since the step before
	Do       Action
	Relay    int       // Kill, Stop
	Messages []Message // Publish
	Hold     time.Duration
	Rollback bool // Publish: its transaction, at the end of Hold
	Operate  Operation
}

// Action is what a step does.
type Action string

// The actions. A relay that is killed or stopped is replaced at once.
const (
	Publish Action = "publish" // in a transaction that stays open for Hold
	Kill    Action = "kill"    // the relay gives nothing back and says nothing any more
	Stop    Action = "stop"    // in order
	Operate Action = "operate"
)

// Operation is what an operator does.
type Operation struct {
	Verb        Verb
	Topic, Key  string // whose messages; empty: any
	Destination int    // Pause, Resume, without a Topic
}

// Verb is a method of outbox.Operator.
type Verb string

// The verbs. What is paused is resumed when the steps are over.
const (
	Redrive Verb = "redrive"
	Retry   Verb = "retry"
	Discard Verb = "discard"
	Pause   Verb = "pause"
	Resume  Verb = "resume"
)

// Message is a message to be published and what its deliveries come to.
type Message struct {
	Topic, Key string
	Delay, TTL time.Duration
	Work       time.Duration // of each delivery
	Fates      []Fate        // of the first deliveries, in turn; later ones are accepted
}

// Fate is how a delivery ends.
type Fate string

// The fates.
const (
	Fails        Fate = "fails"
	FailsForGood Fate = "fails for good"
	FailsAWhile  Fate = "fails for 30 ms"
	IsAway       Fate = "is away"
	Panics       Fate = "panics"
	IsDropped    Fate = "is dropped"
)

// orders are the topics' policies, by the first token of their names.
var orders = map[string]history.Order{"skip": history.Skip, "block": history.Block, "park": history.Park, "none": history.None}

func orderOf(topic string) history.Order {
	name, _, _ := strings.Cut(topic, ".")
	return orders[name]
}

// topics are two of the most usual order and one of each other.
var topics = []string{"skip.a", "skip.b", "block.a", "park.a", "none.a"}

// Limits bound what Plans draws: a store in memory plays many large ones, a database few small ones.
type Limits struct {
	Steps int  // at most, and at least half of it
	Waits bool // there is time to wait within a schedule, for leases to lapse and breakers to close, as often as it comes
}

// Plans draws plans.
func Plans(l Limits) *rapid.Generator[Plan] {
	return rapid.Custom(func(t *rapid.T) Plan {
		p := Plan{
			Relays:       rapid.IntRange(1, 8).Draw(t, "relays"),
			Slots:        rapid.SampledFrom([]int{1, 2, 5, 50}).Draw(t, "slots"),
			Destinations: rapid.IntRange(1, 3).Draw(t, "destinations"),
			Deal:         map[string]int{},
		}
		for _, topic := range topics {
			p.Deal[topic] = rapid.IntRange(0, p.Destinations-1).Draw(t, "destination of "+topic)
		}
		p.Steps = rapid.SliceOfN(step(l, p.Relays), l.Steps/2, l.Steps).Draw(t, "steps")
		return p
	})
}

func step(l Limits, relays int) *rapid.Generator[Step] {
	waits := []int{0, 0, 1, 5, 20, 100}
	if l.Waits {
		waits = append(waits, 1200)
	}
	return rapid.Custom(func(t *rapid.T) Step {
		s := Step{
			After: milliseconds(t, "after", waits),
			Do:    rapid.SampledFrom([]Action{Publish, Publish, Publish, Publish, Kill, Kill, Stop, Operate, Operate}).Draw(t, "do"),
		}
		switch s.Do {
		case Publish:
			s.Messages = rapid.SliceOfN(message(l), 1, 8).Draw(t, "messages")
			s.Hold = milliseconds(t, "hold", []int{0, 0, 0, 3, 30})
			s.Rollback = rapid.IntRange(0, 9).Draw(t, "roll back") == 9
		case Kill, Stop:
			s.Relay = rapid.IntRange(0, relays-1).Draw(t, "relay")
		case Operate:
			s.Operate = operation().Draw(t, "operation")
		}
		return s
	})
}

func operation() *rapid.Generator[Operation] {
	return rapid.Custom(func(t *rapid.T) Operation {
		o := Operation{Verb: rapid.SampledFrom([]Verb{Redrive, Redrive, Retry, Discard, Discard, Pause, Pause, Resume}).Draw(t, "verb")}
		others := 2 // one in so many means any topic, or a destination
		switch o.Verb {
		case Pause, Resume:
			others = 4
			o.Destination = rapid.IntRange(0, 2).Draw(t, "destination")
		default:
			o.Key = rapid.SampledFrom([]string{"", "k1", "k2", "k3"}).Draw(t, "key")
		}
		if rapid.IntRange(1, others).Draw(t, "of one topic") < others {
			o.Topic = rapid.SampledFrom(topics).Draw(t, "topic")
		}
		return o
	})
}

func message(l Limits) *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		return Message{
			Topic: rapid.SampledFrom(topics).Draw(t, "topic"),
			Key:   rapid.SampledFrom([]string{"", "k1", "k1", "k2", "k3"}).Draw(t, "key"),
			Delay: milliseconds(t, "delay", []int{0, 0, 0, 0, 10, 80}),
			TTL:   milliseconds(t, "ttl", []int{0, 0, 0, 0, 0, 0, 100}),
			Work:  milliseconds(t, "work", []int{0, 1, 3, 10, 40, 200}),
			Fates: rapid.SliceOfN(fate(l), 0, 4).Draw(t, "fates"),
		}
	})
}

func fate(l Limits) *rapid.Generator[Fate] {
	return rapid.Custom(func(t *rapid.T) Fate {
		f := rapid.SampledFrom([]Fate{Fails, Fails, FailsForGood, FailsAWhile, IsAway, Panics, IsDropped}).Draw(t, "fate")
		if f == IsAway && !l.Waits && rapid.IntRange(0, 9).Draw(t, "stays away") != 9 {
			return Fails
		}
		return f
	})
}

func milliseconds(t *rapid.T, what string, choices []int) time.Duration {
	return time.Duration(rapid.SampledFrom(choices).Draw(t, what)) * time.Millisecond
}

func destination(i int) string { return fmt.Sprintf("d%d", i+1) }

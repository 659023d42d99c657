package outbox

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/outboxrelay/outbox/internal/shellword"
)

// Stranded are messages that wait for a destination where no live relay would take them: a replay has bound them to it, and
// since then it was taken out of the configuration, or its routes have lost a topic.
type Stranded struct {
	Destination string
	// Topic is what the relays of the destination do not deliver there. Empty: no live relay has the destination.
	Topic    string
	Messages Depth
}

// AddStranded counts messages of a topic that wait for a destination where no live relay would take them, and says whether some
// live relay has it for other topics. For stores.
func (s *Status) AddStranded(destination, topic string, known bool, messages Depth) {
	if !known {
		topic = ""
	}
	at := Stranded{Destination: destination, Topic: topic}
	i, found := slices.BinarySearchFunc(s.Stranded, at, func(a, b Stranded) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Topic, b.Topic))
	})
	if !found {
		s.Stranded = slices.Insert(s.Stranded, i, at)
	}
	d := &s.Stranded[i].Messages
	d.Messages += messages.Messages
	d.AtLeast = d.AtLeast || messages.AtLeast
}

// Release is the command that ends the binding of the messages, so that the routes decide again.
func (s *Stranded) Release() string {
	command := "outbox retry --destination " + shellword.Quote(s.Destination)
	if s.Topic != "" {
		command += " --topic " + shellword.Quote(s.Topic)
	}
	return command + " --by-route"
}

// Lack says what is missing for the messages to be delivered.
func (s *Stranded) Lack() string {
	if s.Topic == "" {
		return fmt.Sprintf("destination %s, which no live relay has", s.Destination)
	}
	return fmt.Sprintf("destination %s, where no live relay delivers topic %s", s.Destination, s.Topic)
}

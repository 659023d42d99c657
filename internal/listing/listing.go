// Package listing says in which order stores list what they hold, and names the places in a list.
package listing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxrelay/outbox"
)

// Place is where a list goes on: after a message of a table. The zero value is the end.
type Place struct {
	Table      string
	Seq        int64
	Generation int
}

// tables hold messages in these states; they are listed in this order.
var tables = []struct {
	name   string
	states []outbox.State
}{
	{"message", []outbox.State{outbox.StateReady}},
	{"waiting", []outbox.State{outbox.StateWaiting}},
	{"dead", []outbox.State{outbox.StateDead}},
	{"archive", []outbox.State{outbox.StateDelivered, outbox.StateDropped, outbox.StateExpired, outbox.StateDiscarded}},
}

// Tables are those of these states, as far as they may have messages that are bound to a destination: ready ones are bound to
// none. Empty: bound or not.
func Tables(states []outbox.State, boundTo string) (names []string) {
	for _, t := range tables {
		if boundTo != "" && t.name == "message" {
			continue
		}
		if slices.ContainsFunc(t.states, func(s outbox.State) bool { return slices.Contains(states, s) }) {
			names = append(names, t.name)
		}
	}
	return names
}

// Following is the beginning of the table after this one, the end after the last.
func Following(tables []string, table string) Place {
	if i := slices.Index(tables, table); i+1 < len(tables) {
		return Place{Table: tables[i+1]}
	}
	return Place{}
}

// String is what Parse reads.
func (p Place) String() string {
	if p.Table == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", p.Table, p.Seq, p.Generation)
}

// Parse reads the place in a list of these tables; "" is the beginning. The error is a *outbox.FieldError.
func Parse(text string, tables []string) (p Place, err error) {
	if text == "" {
		return Place{Table: tables[0]}, nil
	}
	table, rest, _ := strings.Cut(text, ":")
	p.Table = table
	if n, err := fmt.Sscanf(rest, "%d:%d", &p.Seq, &p.Generation); n != 2 || err != nil || !slices.Contains(tables, table) || p.String() != text {
		const readable = 80
		if len(text) > readable {
			text = strings.ToValidUTF8(text[:readable], "") + "…"
		}
		return Place{}, &outbox.FieldError{Field: "After", Value: text, Bound: "must be the Next of a page of the same list"}
	}
	return p, nil
}

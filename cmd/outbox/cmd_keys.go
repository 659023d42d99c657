package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) keysCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show which keys are held, and by what",
		Long: `Show which keys are held, and by what, the longest held first: a message that failed and waits for its next attempt, a dead one
that parks its key, one that a relay has held for more than five seconds, one of a paused topic. BEHIND are the ready
messages of the key that wait for it, counted up to 1,000.

It answers within about a second however many messages there are: it looks at up to 100,000 waiting and dead messages each
and, for pauses, at the oldest 10,000 ready ones.`,
		Example: `  outbox keys --database-url postgres://localhost/shop
  outbox keys --json | jq -r '.keys[] | select(.state == "parked") | .id'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this `many` keys, up to 1000")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return failf(exitUsage, "--limit %d: must be 1 to 1000", limit)
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			keys, err := store.Keys(ctx, limit)
			if err != nil {
				return err
			}
			return a.printKeys(&keys)
		})
	})
	return cmd
}

func (a *app) printKeys(keys *outbox.Keys) error {
	var err error
	switch {
	case a.json:
		err = a.printJSON(a.keysJSON(keys))
	case len(keys.Holds) > 0:
		err = a.printTable(keyRows(keys))
	case len(keys.Pauses) == 0:
		a.tell("no key is held")
	}
	if err != nil {
		return err
	}
	if !a.json {
		for _, p := range keys.Pauses {
			a.printf("paused  %s  → %s\n", pauseText(p), a.next(p.Release()))
		}
	}
	return nil
}

func pauseText(p outbox.Pause) string {
	text := "destination " + p.Destination
	if p.Topic != "" {
		text = "topic " + p.Topic
	}
	text += fmt.Sprintf(" by %s at %s", p.Actor, utc(p.At).Format(time.RFC3339))
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return oneLine(text)
}

func (a *app) keysJSON(keys *outbox.Keys) keysJSON {
	j := newKeys(keys)
	for i := range j.Keys {
		j.Keys[i].Next = a.next(j.Keys[i].Next)
	}
	a.completePauses(j.Pauses)
	return j
}

func (a *app) completePauses(pauses []pauseJSON) {
	for i := range pauses {
		pauses[i].Next = a.next(pauses[i].Next)
	}
}

func keyRows(keys *outbox.Keys) [][]string {
	rows := [][]string{{"KEY", "HELD", "STATE", "BEHIND", "TOPIC", "ATTEMPTS", "NEXT", "LAST ERROR"}}
	for _, h := range keys.Holds {
		next, state := "", string(h.State)
		if h.State == outbox.HoldRetrying {
			next = "in " + age(h.NextTry)
		}
		if h.Relay != "" {
			state += " at " + h.Relay
		}
		rows = append(rows, []string{h.Key, age(h.Age), state, depth(h.Behind), h.Topic, strconv.Itoa(h.Attempts), next, holdText(&h)},
			[]string{"", "", "→ " + h.Release()})
	}
	if keys.More {
		rows = append(rows, []string{"…", "", "more: --limit"})
	}
	return rows
}

// holdText is the last error, or why a message is held back that nobody has seen fail.
func holdText(h *outbox.KeyHold) string {
	if h.Class == "" && h.Lapses >= outbox.SuspectLapses {
		return "relays have died with it"
	}
	return errorText(h.Class, h.Text)
}

// errorText is the beginning of the first line of an error, for a table.
func errorText(class, text string) string {
	const width = 80
	if class == "" {
		return ""
	}
	runes := []rune(class + ": " + text)
	for i, r := range runes {
		if r == '\n' || i == width {
			return string(runes[:i]) + "…"
		}
	}
	return string(runes)
}

type keysJSON struct {
	Keys   []keyJSON   `json:"keys"`
	More   bool        `json:"more"`
	Pauses []pauseJSON `json:"pauses"`
}

type keyJSON struct {
	Key            string    `json:"key"`
	State          string    `json:"state"`
	ID             string    `json:"id"`
	Seq            int64     `json:"seq"`
	Topic          string    `json:"topic"`
	Attempts       int       `json:"attempts"`
	Lapses         int       `json:"lapses,omitempty"`
	ErrorClass     string    `json:"error_class,omitempty"`
	LastError      string    `json:"last_error,omitempty"`
	NextTrySeconds float64   `json:"next_try_seconds,omitempty"`
	HeldSeconds    float64   `json:"held_seconds"`
	Destination    string    `json:"destination,omitempty"`
	Relay          string    `json:"relay,omitempty"`
	Behind         depthJSON `json:"behind"`
	Next           string    `json:"next"`
}

type pauseJSON struct {
	Topic       string    `json:"topic,omitempty"`
	Destination string    `json:"destination,omitempty"`
	Actor       string    `json:"actor"`
	Reason      string    `json:"reason,omitempty"`
	At          time.Time `json:"at"`
	Next        string    `json:"next"`
}

func newPauses(pauses []outbox.Pause) []pauseJSON {
	list := []pauseJSON{}
	for _, p := range pauses {
		list = append(list, pauseJSON{p.Topic, p.Destination, p.Actor, p.Reason, utc(p.At), p.Release()})
	}
	return list
}

func newKeys(keys *outbox.Keys) keysJSON {
	j := keysJSON{[]keyJSON{}, keys.More, newPauses(keys.Pauses)}
	for _, h := range keys.Holds {
		j.Keys = append(j.Keys, keyJSON{h.Key, string(h.State), h.ID.String(), h.Seq, h.Topic, h.Attempts, h.Lapses, h.Class, h.Text,
			round(h.NextTry), round(h.Age), h.Destination, h.Relay, newDepth(h.Behind), h.Release()})
	}
	return j
}

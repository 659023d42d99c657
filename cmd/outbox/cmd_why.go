package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) whyCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "why ID | --key KEY",
		Short: "Explain why a message or a key is not delivered",
		Long: `Explain why a message, or the first message of a key, is not delivered: where it is, what is before it in its key, what keeps
that, and the command that releases it. Of one that has ended and is kept it tells how; of a key also how many of its messages are dead
without holding it.

Exit codes: 0 explained, 1 failed, 2 usage, 3 there is no such message: it was delivered or discarded and not kept, or never published.`,
		Example: `  outbox why 019545c8-4c35-7000-8000-000000000001
  outbox why --key order-7 --json | jq -r '.reasons[-1].next'`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&key, "key", "", "ask about the first message of this `key`")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		q := outbox.WhyQuery{Key: key}
		if (len(args) == 0) == (key == "") {
			return failf(exitUsage, "about what? give an id or --key, one of them")
		}
		if len(args) == 1 {
			var err error
			if q.ID, err = outbox.ParseID(args[0]); err != nil {
				return failf(exitUsage, "%q is no UUID", args[0])
			}
		}
		if err := q.Check(); err != nil {
			return &failure{exitUsage, err}
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			w, err := store.Why(ctx, q)
			if err != nil {
				return err
			}
			return a.printWhy(&w)
		})
	})
	return cmd
}

func (a *app) printWhy(w *outbox.Why) error {
	reasons := w.Reasons()
	if a.json {
		j := newWhy(w, reasons)
		for i := range j.Reasons {
			j.Reasons[i].Next = a.next(j.Reasons[i].Next)
		}
		a.completePauses(j.Pauses)
		if err := a.printJSON(j); err != nil {
			return err
		}
	} else if w.IsExplained() {
		a.printReasons(w, reasons)
	}
	switch {
	case w.IsExplained():
		return nil
	case a.json:
		return silently(exitNothing)
	}
	return &failure{exitNothing, errors.New(reasons[0].Text)}
}

func (a *app) printReasons(w *outbox.Why, reasons []outbox.Reason) {
	for _, r := range reasons {
		a.printf("%s\n", a.complete(reasonLine(r)))
	}
	if w.Message == nil || w.Query.Key == "" {
		return
	}
	if n := w.Younger; n.Messages > 0 {
		a.printf("%s of the key are ready behind it\n", depth(n))
	}
	if n := w.Dead; n.Messages > 0 {
		a.printf("%s\n", a.complete(fmt.Sprintf("%s of the key are dead and do not hold it  → %s", depth(n), w.ReleaseDead())))
	}
}

func reasonLine(r outbox.Reason) string {
	if r.Command == "" {
		return oneLine(r.Text)
	}
	return fmt.Sprintf("%s  → %s", oneLine(r.Text), r.Command)
}

type whyJSON struct {
	Message    *messageStateJSON `json:"message"`
	Head       *messageStateJSON `json:"head,omitempty"`
	Older      *depthJSON        `json:"older,omitempty"`
	Younger    *depthJSON        `json:"younger,omitempty"`
	Dead       *depthJSON        `json:"dead,omitempty"` // of the key that was asked for, without holding it
	Ended      *endedJSON        `json:"ended,omitempty"`
	Pauses     []pauseJSON       `json:"pauses"`
	RelaysLive int               `json:"relays_live"`
	Reasons    []reasonJSON      `json:"reasons"`
}

type messageStateJSON struct {
	ID           string     `json:"id"`
	Seq          int64      `json:"seq"`
	Topic        string     `json:"topic"`
	Key          string     `json:"key,omitempty"`
	State        string     `json:"state"`
	Attempts     int        `json:"attempts"`
	Lapses       int        `json:"lapses,omitempty"`
	Generation   int        `json:"generation"`
	ErrorClass   string     `json:"error_class,omitempty"`
	LastError    string     `json:"last_error,omitempty"`
	PublishedAt  time.Time  `json:"published_at"`
	DueSeconds   *float64   `json:"due_seconds,omitempty"`
	DeadSeconds  *float64   `json:"dead_seconds,omitempty"`
	Holds        bool       `json:"holds"`
	Destination  string     `json:"destination,omitempty"` // that it is bound to
	Claim        *claimJSON `json:"claim,omitempty"`
	Destinations []string   `json:"destinations"`
}

// endedJSON is how a message has ended that is kept.
type endedJSON struct {
	ID          string    `json:"id"`
	Topic       string    `json:"topic"`
	State       string    `json:"state"`
	Destination string    `json:"destination,omitempty"`
	Actor       string    `json:"actor,omitempty"`
	Detail      string    `json:"detail,omitempty"`
	EndedAt     time.Time `json:"ended_at"`
}

type claimJSON struct {
	Destination    string  `json:"destination"`
	ClaimedSeconds float64 `json:"claimed_seconds"`
	Live           bool    `json:"live"`
	Host           string  `json:"host,omitempty"`
	PID            int     `json:"pid,omitempty"`
}

type reasonJSON struct {
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

func newWhy(w *outbox.Why, reasons []outbox.Reason) whyJSON {
	j := whyJSON{Message: newMessageState(w.Message), Head: newMessageState(w.Head), Pauses: newPauses(w.Pauses), RelaysLive: w.LiveRelays}
	if w.Message != nil && w.Message.Key != "" {
		older, younger := newDepth(w.Older), newDepth(w.Younger)
		j.Older, j.Younger = &older, &younger
	}
	if w.Query.Key != "" {
		dead := newDepth(w.Dead)
		j.Dead = &dead
	}
	if e := w.Ended; e != nil {
		j.Ended = &endedJSON{e.Message.ID.String(), e.Message.Topic, string(e.State), e.Destination, e.Actor, e.Text, utc(e.EndedAt)}
	}
	for _, r := range reasons {
		j.Reasons = append(j.Reasons, reasonJSON{r.Text, r.Command})
	}
	return j
}

func newMessageState(m *outbox.MessageState) *messageStateJSON {
	if m == nil {
		return nil
	}
	j := &messageStateJSON{ID: m.ID.String(), Seq: m.Seq, Topic: m.Topic, Key: m.Key, State: m.State, Attempts: m.Attempts, Lapses: m.Lapses, Generation: m.Generation,
		ErrorClass: m.Class, LastError: m.Text, PublishedAt: utc(m.PublishedAt), Holds: m.Holds, Destination: m.Destination, Destinations: append([]string{}, m.Destinations...)}
	switch m.State {
	case "waiting":
		due := round(m.Due)
		j.DueSeconds = &due
	case "dead":
		died := round(m.Died)
		j.DeadSeconds = &died
	}
	if h := m.Holder; h != nil {
		j.Claim = &claimJSON{h.Destination, round(h.Claimed), h.Live, h.Host, h.PID}
	}
	return j
}

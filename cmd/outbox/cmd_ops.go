package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) opsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Show what operators did, and how to go on with what has stopped",
		Long: `Show what operators did and are doing: first what has not come to its end, then the rest, the newest first. One that is running
may be at work, or its command was stopped: its changed count grows, or it does not. NEXT goes on with it, which
does no harm to one that is at work.`,
		Example: `  outbox ops
  outbox ops --json | jq -r '.operations[] | select(.state == "running") | .next'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this `many` operations, up to 1000")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return failf(exitUsage, "--limit %d: must be 1 to 1000", limit)
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			list, err := store.Operations(ctx, limit)
			if err != nil {
				return err
			}
			return a.printOperations(list)
		})
	})
	return cmd
}

type operationJSON struct {
	ID         int64             `json:"id"`
	Verb       string            `json:"verb"`
	State      string            `json:"state"` // running, waiting or done
	Filter     map[string]string `json:"filter"`
	Actor      string            `json:"actor"`
	Reason     string            `json:"reason,omitempty"`
	Rate       int               `json:"rate,omitempty"`
	Matched    int64             `json:"matched"`
	Changed    int64             `json:"changed"`
	Held       int64             `json:"held"`
	NoPayload  int64             `json:"no_payload,omitempty"`
	StartedAt  time.Time         `json:"started_at"`
	FinishedAt *time.Time        `json:"finished_at,omitempty"`
	Next       string            `json:"next,omitempty"`
}

func newOperation(o *outbox.Operation) operationJSON {
	j := operationJSON{o.ID, o.Verb, o.State, o.Filter, o.Actor, o.Reason, o.Rate, o.Matched, o.Changed, o.Held, o.NoPayload, utc(o.StartedAt),
		nil, o.Release()}
	if !o.FinishedAt.IsZero() {
		finished := utc(o.FinishedAt)
		j.FinishedAt = &finished
	}
	return j
}

func (a *app) printOperations(list []outbox.Operation) error {
	if a.json {
		js := []operationJSON{}
		for i := range list {
			j := newOperation(&list[i])
			j.Next = a.next(j.Next)
			js = append(js, j)
		}
		return a.printJSON(map[string]any{"operations": js})
	}
	if len(list) == 0 {
		a.tell("no operator has changed anything yet")
		return nil
	}
	rows := [][]string{{"ID", "VERB", "STATE", "CHANGED", "WHICH", "WHO", "STARTED", "WHY", "NEXT"}}
	for _, o := range list {
		var which []string
		for _, name := range slices.Sorted(maps.Keys(o.Filter)) {
			which = append(which, name+"="+o.Filter[name])
		}
		changed := count(o.Changed)
		if o.Held > 0 {
			changed += fmt.Sprintf(" (%s left alone)", count(o.Held))
		}
		rows = append(rows, []string{strconv.FormatInt(o.ID, 10), o.Verb, o.State, changed, shorten(strings.Join(which, " "), 120), o.Actor,
			utc(o.StartedAt).Format(time.DateTime + "Z"), shorten(o.Reason, 60), a.next(o.Release())})
	}
	return a.printTable(rows)
}

// shorten cuts a text after so many characters.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox/pgstore"
)

func (a *app) walCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wal",
		Short: "Show who streams from the WAL, and how far it is",
		Long: `Show the relays with the WAL engine: which of them streams, how far it is behind, what waits in its buffer, when a
destination last had to catch up, and why. What relays tell is as old as SEEN says.

Exit codes: 0 a relay streams, 3 no relay has the WAL engine, 4 relays have it and none streams.`,
		Example: `  outbox wal --database-url postgres://localhost/shop
  outbox wal --json | jq .slot.retained_bytes`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, _ *config, store *pgstore.Store) error {
			status, err := ask(ctx, store.WAL)
			if err != nil {
				return err
			}
			return a.reportWAL(status)
		})
	})
	return cmd
}

type walJSON struct {
	Slot   *walSlotJSON   `json:"slot"`
	Relays []walRelayJSON `json:"relays"`
}

type walSlotJSON struct {
	Name             string `json:"name"`
	PID              int    `json:"pid"`
	RetainedBytes    int64  `json:"retained_bytes"`
	UnconfirmedBytes int64  `json:"unconfirmed_bytes"`
}

type walRelayJSON struct {
	ID          string  `json:"id"`
	Host        string  `json:"host"`
	PID         int     `json:"pid"`
	Live        bool    `json:"live"`
	SeenSeconds float64 `json:"seen_seconds"`
	pgstore.StreamReport
}

func newWAL(status pgstore.WALStatus) walJSON {
	j := walJSON{Relays: []walRelayJSON{}}
	if s := status.Slot; s != nil {
		j.Slot = &walSlotJSON{s.Name, s.PID, s.Retained, s.Unconfirmed}
	}
	for _, r := range status.Relays {
		j.Relays = append(j.Relays, walRelayJSON{r.ID.String(), r.Host, r.PID, r.Live, round(r.Seen), r.Stream})
	}
	return j
}

func (a *app) reportWAL(status pgstore.WALStatus) error {
	j := newWAL(status)
	switch {
	case a.json:
		if err := a.printJSON(j); err != nil {
			return err
		}
	case len(j.Relays) > 0:
		if err := a.printTable(walRows(j)); err != nil {
			return err
		}
		if j.Slot != nil {
			fmt.Fprintf(a.stdout, "\nslot %s: the server keeps %s of WAL for it, %s of it not confirmed\n", j.Slot.Name,
				bytesOf(j.Slot.RetainedBytes), bytesOf(j.Slot.UnconfirmedBytes))
		}
	}
	switch {
	case len(j.Relays) == 0:
		return failf(exitNothing, "no relay has the WAL engine; start one: %s", a.next("outbox run --engine wal"))
	case j.Slot == nil:
		return failf(exitUnhealthy, "no relay streams, all poll; see what is missing: %s", a.next("outbox check --engine wal"))
	}
	return nil
}

func walRows(j walJSON) [][]string {
	rows := [][]string{{"HOST", "PID", "SEEN", "STATE", "LAG", "BUFFERED", "DESTINATIONS", "PROBLEM"}}
	for _, r := range j.Relays {
		state, lag := r.State, "-"
		if !r.Live {
			state = "lapsed"
		}
		if r.State == "streaming" {
			lag = seconds(r.LagSeconds).Round(time.Millisecond).String()
		}
		rows = append(rows, []string{r.Host, strconv.Itoa(r.PID), age(seconds(r.SeenSeconds)) + " ago", state, lag, count(int64(r.Buffered)),
			feedWords(r.Lanes), r.Problem})
	}
	return rows
}

// feedWords are the destinations with what the stream means to each: events(following since 10:02:11, the stream has begun).
func feedWords(lanes []pgstore.LaneReport) string {
	words := make([]string, len(lanes))
	for i, l := range lanes {
		words[i] = fmt.Sprintf("%s(%s", l.Destination, l.State)
		if !l.Since.IsZero() {
			words[i] += fmt.Sprintf(" since %s; %s", utc(l.Since).Format(time.RFC3339), l.Why)
		}
		words[i] += ")"
	}
	return strings.Join(words, " ")
}

// bytesOf writes bytes: 0 B, 812 KiB, 3 MiB.
func bytesOf(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n >= 10<<10 && i < len(units)-1; i++ {
		n >>= 10
	}
	return strconv.FormatInt(n, 10) + " " + units[i]
}

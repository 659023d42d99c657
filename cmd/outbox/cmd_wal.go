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
destination last had to catch up, and why. One that stands by tries now and then whether it could take over; PROBLEM says why
not. What relays tell is as old as SEEN says, but who streams is asked of the server: a relay that was killed is cut off.

Exit codes: 0 a relay streams, and those that stand by could, 3 no relay has the WAL engine, 4 relays have it and none streams, or
one that stands by could not take over.`,
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
	ID             string  `json:"id"`
	Host           string  `json:"host"`
	PID            int     `json:"pid"`
	Live           bool    `json:"live"`
	Streams        bool    `json:"streams"`
	SeenSeconds    float64 `json:"seen_seconds"`
	OverdueSeconds float64 `json:"overdue_seconds,omitempty"`
	pgstore.StreamReport
}

func newWAL(status pgstore.WALStatus) walJSON {
	j := walJSON{Relays: []walRelayJSON{}}
	if s := status.Slot; s != nil {
		j.Slot = &walSlotJSON{s.Name, s.PID, s.Retained, s.Unconfirmed}
	}
	for _, r := range status.Relays {
		j.Relays = append(j.Relays, walRelayJSON{r.ID.String(), r.Host, r.PID, r.Live, r.Streams, round(r.Seen), round(r.Overdue()), r.Stream})
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
	return a.walVerdict(j)
}

// walVerdict says in one line what the table means.
func (a *app) walVerdict(j walJSON) error {
	streams, cutOff, unfit := false, false, ""
	for _, r := range j.Relays {
		name := fmt.Sprintf("relay %s/pid %d", r.Host, r.PID)
		switch {
		case r.Streams && r.OverdueSeconds > 0: // its host is gone, or it is suspended
			return failf(exitUnhealthy, "%s has the stream, and its heartbeat is overdue for %s; the server takes the stream from it after wal_sender_timeout",
				name, age(seconds(r.OverdueSeconds)))
		case r.Streams:
			streams = true
		case r.State == "cut off":
			cutOff = true
		case r.Live && r.State == "standing by" && r.Problem != "" && unfit == "":
			unfit = name
		}
	}
	switch {
	case len(j.Relays) == 0:
		return failf(exitNothing, "no relay has the WAL engine; start one: %s", a.next("outbox run --engine wal"))
	case streams && unfit != "":
		return failf(exitUnhealthy, "%s could not take over from the relay that streams: PROBLEM says why", unfit)
	case streams:
		return nil
	case j.Slot != nil:
		return failf(exitUnhealthy, "no relay streams yet: the server's process %d makes the slot, which waits for transactions that write, or its relay has not told yet", j.Slot.PID)
	case cutOff:
		return failf(exitUnhealthy, "no relay streams, and the one that did is cut off; unless another takes over at once, see what is missing: %s",
			a.next("outbox check --engine wal"))
	}
	return failf(exitUnhealthy, "no relay streams, all poll; see what is missing: %s", a.next("outbox check --engine wal"))
}

func walRows(j walJSON) [][]string {
	rows := [][]string{{"HOST", "PID", "SEEN", "STATE", "LAG", "BUFFERED", "DESTINATIONS", "PROBLEM"}}
	for _, r := range j.Relays {
		state, lag := r.State, "-"
		switch {
		case !r.Live:
			state = "lapsed"
		case r.OverdueSeconds > 0:
			state += ", overdue for " + age(seconds(r.OverdueSeconds))
		}
		if r.Streams {
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

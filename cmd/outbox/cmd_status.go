package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the outbox is doing",
		Long: `Show how the outbox is doing: how much waits, how fast it comes and goes, and what is wrong, each with the command to
type next.

It answers within about two seconds however many messages there are. Ready messages are counted up to 100,000; above
that the number is the database's running count, marked ~, with the time since vacuum or analyze last corrected it. The
other states are counted up to 100,000 and say 100,000+ above. A destination is available, unavailable (down, hangs or
takes nothing now: the relays go on asking) or misconfigured (somebody has to do what the text says), as of the relays'
last heartbeats. The rates are of one sampled second: in counts published
messages, out those that left the ready ones, be it delivered, dead or set aside for a retry.`,
		Example: `  outbox status --database-url postgres://localhost/shop
  outbox status --json | jq .ready.messages`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			st, err := ask(ctx, store.Status)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(a.statusJSON(&st))
			}
			a.printf("outbox on %s  schema %s version %d  %s\n", st.Database, st.Schema, st.SchemaVersion, utc(st.At).Format("2006-01-02 15:04:05Z"))
			return a.printTable(statusRows(&st))
		})
	})
	return cmd
}

// warning is something to look at, and the command to look with.
type warning struct {
	Text string `json:"text"`
	Next string `json:"next"`
}

func warnings(st *outbox.Status) []warning {
	list := []warning{}
	live := st.LiveRelays()
	if live == 0 && !st.Depths.Empty() {
		list = append(list, warning{"no live relay: nothing is delivered", "outbox run"})
	}
	if live > 0 {
		for _, t := range st.Unhandled {
			more := ""
			if t.AtLeast {
				more = "+"
			}
			list = append(list, warning{fmt.Sprintf("topic %q: %s%s ready, no live relay handles it", t.Topic, count(t.Messages), more), "outbox relays"})
		}
	}
	for _, s := range st.Stranded {
		list = append(list, warning{strandedText(&s), s.Release()})
	}
	for _, d := range st.MixedSettings() {
		list = append(list, warning{mixedText(d), "outbox relays"})
	}
	for _, d := range st.Destinations {
		if w := faultWarning(d); w != nil {
			list = append(list, *w)
		}
	}
	if h := st.Horizon; h != nil {
		list = append(list, warning{fmt.Sprintf("vacuum horizon held %s by %s %s, %s", age(h.Age), h.Kind, h.Name, h.Text), h.Release()})
	}
	list = append(list, aboutRelays(st)...)
	if grows(st) {
		list = append(list, warning{"more is published than delivered: another relay, or more slots, if the destination takes more", "outbox run"})
	}
	return list
}

// troublesOf are what a live relay tells of itself.
func troublesOf(r *outbox.RelayStatus) (texts []string) {
	if !r.Live {
		return nil
	}
	if n := r.Counters["stuck"]; n > 0 {
		texts = append(texts, fmt.Sprintf("relay %s/pid %d: %s with a handler that ignores its cancelled context; the log has its stack, a restart of the relay ends it",
			r.Host, r.PID, messages(n)))
	}
	if r.ArchiveRefusal != "" {
		texts = append(texts, fmt.Sprintf("relay %s/pid %d: the archive refused the last messages, which ended without being kept: %s", r.Host, r.PID, r.ArchiveRefusal))
	}
	return texts
}

// grows: the backlog is long, old and gets longer, although every destination takes messages. One sampled second says little about a
// short one.
func grows(st *outbox.Status) bool {
	const long, old = 10_000, time.Minute
	for _, d := range st.Destinations {
		if d.Fault != nil {
			return false
		}
	}
	return st.LiveRelays() > 0 && st.Ready.Messages >= long && st.OldestEligible > old && st.InPerSecond > st.OutPerSecond
}

func mixedText(destination string) string {
	return fmt.Sprintf("the relays of %s have different rules for attempts, backoff or order, or keep differently what has ended", destination)
}

func statusRows(st *outbox.Status) [][]string {
	rows := [][]string{{"behind", behind(st)}}
	waiting := fmt.Sprintf("%s  scheduled %s  dead %s (+%s in the last hour)",
		depth(st.Retrying), depth(st.Scheduled), depth(st.Dead), count(st.DeadLastHour))
	if st.Dead.Messages > 0 {
		waiting += "  → outbox dead"
	}
	rows = append(rows, []string{"in flight", count(st.InFlight)}, []string{"retrying", waiting})
	if st.HeldKeys.Messages > 0 {
		keys := "keys"
		if st.HeldKeys.Messages == 1 && !st.HeldKeys.AtLeast {
			keys = "key"
		}
		rows = append(rows, []string{"blocked", fmt.Sprintf("%s %s, the longest for %s  → outbox keys", depth(st.HeldKeys), keys, age(st.HeldLongest))})
	}
	for _, p := range st.Pauses {
		rows = append(rows, []string{"paused", pauseText(p) + "  → " + p.Release()})
	}
	for _, d := range st.Destinations {
		rows = append(rows, []string{d.Name, destinationWords(d, st.LiveRelays())})
	}
	rows = append(rows, []string{"relays", relaySummary(st)})
	for _, w := range warnings(st) {
		rows = append(rows, []string{"warning", w.Text + "  → " + w.Next})
	}
	return rows
}

func destinationWords(d outbox.DestinationStatus, live int) string {
	text := fmt.Sprintf("%s  %s in flight  %d of %d relays", d.Fault.State(), count(d.InFlight), d.Relays, live)
	if d.Fault == nil {
		return text
	}
	if d.Faulty < d.Relays {
		text = fmt.Sprintf("%s  (to %d of them)", text, d.Faulty)
	}
	return text + "  " + d.Fault.Reason
}

// faultWarning is nil unless somebody has to do something.
func faultWarning(d outbox.DestinationStatus) *warning {
	if d.Fault == nil || !d.Fault.Misconfigured {
		return nil
	}
	return &warning{fmt.Sprintf("destination %s is misconfigured: %s", d.Name, d.Fault.Reason), "outbox check"}
}

func behind(st *outbox.Status) string {
	text := depth(st.Ready) + " ready"
	if st.Ready.Estimated {
		text += fmt.Sprintf(" (estimate, corrected %s ago)", age(st.Ready.Age))
	}
	if st.OldestEligible > 0 {
		text += "  oldest eligible " + age(st.OldestEligible)
	}
	text += fmt.Sprintf("  in %s/s  out %s/s", rate(st.InPerSecond), rate(st.OutPerSecond))
	if in := st.EmptyIn(); in > 0 {
		text += "  empty in ~" + age(in)
	}
	return text
}

func rate(r float64) string {
	if r > 0 && r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return count(int64(r + 0.5))
}

func relaySummary(st *outbox.Status) string {
	if st.LiveRelays() == 0 {
		return "none live"
	}
	newest := time.Duration(1<<63 - 1)
	for _, r := range st.Relays {
		if r.Live {
			newest = min(newest, r.Seen)
		}
	}
	text := fmt.Sprintf("%d live, newest heartbeat %s ago", st.LiveRelays(), age(newest))
	if late := st.LiveRelays() - heard(st); late > 0 {
		text += fmt.Sprintf(", %d overdue", late)
	}
	return text
}

func (a *app) statusJSON(st *outbox.Status) statusJSON {
	j := newStatus(st)
	for i := range j.Warnings {
		j.Warnings[i].Next = a.next(j.Warnings[i].Next)
	}
	a.completePauses(j.Pauses)
	return j
}

// statusJSON is status as JSON.
type statusJSON struct {
	Database              string            `json:"database"`
	Schema                string            `json:"schema"`
	SchemaVersion         int               `json:"schema_version"`
	At                    time.Time         `json:"at"`
	Ready                 depthJSON         `json:"ready"`
	InFlight              int64             `json:"in_flight"`
	Retrying              depthJSON         `json:"retrying"`
	Scheduled             depthJSON         `json:"scheduled"`
	Dead                  depthJSON         `json:"dead"`
	DeadLastHour          int64             `json:"dead_last_hour"`
	OldestEligibleSeconds float64           `json:"oldest_eligible_seconds"`
	InPerSecond           float64           `json:"in_per_second"`
	OutPerSecond          float64           `json:"out_per_second"`
	EmptyInSeconds        float64           `json:"empty_in_seconds,omitempty"`
	BlockedKeys           depthJSON         `json:"blocked_keys"`
	BlockedLongestSeconds float64           `json:"blocked_longest_seconds"`
	Pauses                []pauseJSON       `json:"pauses"`
	Destinations          []destinationJSON `json:"destinations"`
	RelaysLive            int               `json:"relays_live"`
	Relays                []relayJSON       `json:"relays"`
	Unhandled             []unhandledJSON   `json:"unhandled"`
	Stranded              []strandedJSON    `json:"stranded"`
	Warnings              []warning         `json:"warnings"`
}

type destinationJSON struct {
	Name     string `json:"name"`
	Relays   int    `json:"relays"`
	InFlight int64  `json:"in_flight"`
	State    string `json:"state"` // available, unavailable or misconfigured
	Faulty   int    `json:"relays_faulty"`
	Reason   string `json:"reason,omitempty"`
}

func newDestination(d outbox.DestinationStatus) destinationJSON {
	return destinationJSON{d.Name, d.Relays, d.InFlight, d.Fault.State(), d.Faulty, reasonOf(d.Fault)}
}

func reasonOf(f *outbox.Fault) string {
	if f == nil {
		return ""
	}
	return f.Reason
}

type unhandledJSON struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
	AtLeast  bool   `json:"at_least,omitempty"`
}

type strandedJSON struct {
	Destination string `json:"destination"`
	Topic       string `json:"topic,omitempty"` // empty: no live relay has the destination
	Messages    int64  `json:"messages"`
	AtLeast     bool   `json:"at_least,omitempty"`
}

func newStatus(st *outbox.Status) statusJSON {
	j := statusJSON{st.Database, st.Schema, st.SchemaVersion, utc(st.At), newDepth(st.Ready), st.InFlight, newDepth(st.Retrying),
		newDepth(st.Scheduled), newDepth(st.Dead), st.DeadLastHour, round(st.OldestEligible), st.InPerSecond, st.OutPerSecond,
		round(st.EmptyIn()), newDepth(st.HeldKeys), round(st.HeldLongest), newPauses(st.Pauses), []destinationJSON{}, st.LiveRelays(), []relayJSON{}, []unhandledJSON{}, []strandedJSON{}, warnings(st)}
	for _, d := range st.Destinations {
		j.Destinations = append(j.Destinations, newDestination(d))
	}
	for _, r := range st.Relays {
		j.Relays = append(j.Relays, newRelay(r))
	}
	for _, t := range st.Unhandled {
		j.Unhandled = append(j.Unhandled, unhandledJSON(t))
	}
	for _, s := range st.Stranded {
		j.Stranded = append(j.Stranded, strandedJSON{s.Destination, s.Topic, s.Messages.Messages, s.Messages.AtLeast})
	}
	return j
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/inwords"
	"github.com/outboxrelay/outbox/pgstore"
)

// withStore loads the configuration and calls do with a store in PostgreSQL that nobody relays from.
func (a *app) withStore(cmd *cobra.Command, do func(ctx context.Context, c *config, store *pgstore.Store) error) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	store, closeStore, err := c.openStore(cmd.Context(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	defer closeStore()
	return do(cmd.Context(), c, store)
}

// withOutbox is withStore for an outbox of either kind.
func (a *app) withOutbox(cmd *cobra.Command, do func(ctx context.Context, c *config, store outboxStore) error) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	store, closeStore, err := c.openOutbox(cmd.Context(), false, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	defer closeStore()
	return do(cmd.Context(), c, store)
}

// askPatience is how long one look at the outbox may take, which takes a second or two: a database that takes connections and
// does not answer would be waited for in silence.
const askPatience = 15 * time.Second

// ask looks within askPatience.
func ask[T any](ctx context.Context, look func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the database has not answered within %s", askPatience))
	defer cancel()
	v, err := look(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(limited), err)
	}
	return v, err
}

// depthJSON is a depth; estimated and at_least say how it is meant.
type depthJSON struct {
	Messages   int64   `json:"messages"`
	Estimated  bool    `json:"estimated,omitempty"`
	AtLeast    bool    `json:"at_least,omitempty"`
	AgeSeconds float64 `json:"age_seconds,omitempty"`
}

func newDepth(d outbox.Depth) depthJSON {
	return depthJSON{d.Messages, d.Estimated, d.AtLeast, round(d.Age)}
}

// round gives seconds with milliseconds.
func round(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func utc(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

type relayJSON struct {
	ID               string           `json:"id"`
	Host             string           `json:"host"`
	PID              int              `json:"pid"`
	Version          string           `json:"version"`
	Engine           string           `json:"engine"`
	Streaming        bool             `json:"streaming,omitempty"`
	StreamProblem    string           `json:"stream_problem,omitempty"` // why it cannot stream
	Settings         string           `json:"settings,omitempty"`       // a digest
	Live             bool             `json:"live"`
	StartedAt        time.Time        `json:"started_at"`
	SeenSeconds      float64          `json:"seen_seconds"`
	OverdueSeconds   float64          `json:"overdue_seconds,omitempty"` // of a heartbeat that should have come
	LeaseLeftSeconds float64          `json:"lease_left_seconds"`
	InFlight         int64            `json:"in_flight"`
	Destinations     []laneJSON       `json:"destinations"`
	Counters         map[string]int64 `json:"counters"`
}

type laneJSON struct {
	Name     string   `json:"name"`
	Topics   []string `json:"topics"`
	InFlight int64    `json:"in_flight"`
	State    string   `json:"state"` // available, unavailable or misconfigured
	Reason   string   `json:"reason,omitempty"`
}

func newRelay(r outbox.RelayStatus) relayJSON {
	j := relayJSON{r.ID.String(), r.Host, r.PID, r.Version, r.Engine, r.Streaming, r.StreamProblem, r.Settings, r.Live, utc(r.StartedAt), round(r.Seen),
		round(r.Overdue()), round(r.LeaseLeft), r.InFlight, []laneJSON{}, r.Counters}
	for _, l := range r.Lanes {
		topics := []string{}
		for _, p := range l.Topics {
			if p.In {
				topics = append(topics, p.Pattern)
			}
		}
		j.Destinations = append(j.Destinations, laneJSON{l.Destination, topics, l.InFlight, l.Fault.State(), reasonOf(l.Fault)})
	}
	return j
}

// state is live, live and streaming, silent for longer than it should be, or lapsed.
func (r relayJSON) state() string {
	switch {
	case !r.Live:
		return "lapsed"
	case r.OverdueSeconds > 0:
		return overdueWords(seconds(r.OverdueSeconds), seconds(r.LeaseLeftSeconds))
	case r.Streaming:
		return "live, streams"
	}
	return "live"
}

func overdueWords(late, left time.Duration) string {
	return fmt.Sprintf("overdue for %s, lapses in %s", age(late), age(left))
}

// count writes a number with separators: 1,984,210.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// depth writes a depth: 17, ~1,984,210 for an estimate, 100,000+ for at least.
func depth(d outbox.Depth) string {
	switch {
	case d.Estimated:
		return "~" + count(d.Messages)
	case d.AtLeast:
		return count(d.Messages) + "+"
	}
	return count(d.Messages)
}

func age(d time.Duration) string { return inwords.Age(d) }

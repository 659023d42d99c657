package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/bench"
)

// benchFlags bound the benchmark.
type benchFlags struct {
	rows, keys, rate  int
	payload, duration string
}

func (a *app) benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the outbox on a database of yours",
		Long: `Measure the outbox on a database of yours, in a schema of its own, which it makes and drops: how fast a relay in this
process drains a backlog to a sink that does nothing, beside plain SQL that reads and deletes the same rows; what
publishing costs, beside a bare INSERT; how long a message takes from commit to handler. Nothing else in the database is
touched. It is work, though: the server's disk, WAL and CPU are used as much as they can be, with up to 15 connections.

The database's user must be allowed to create schemas. If the program is killed the schema stays; its name begins with
outbox_bench_, and the next call tells of it.

Exit codes: 0 measured, 1 something was lost, repeated or out of order, or could not be measured, 2 usage.`,
		Example: `  outbox bench --database-url postgres://localhost/shop

  # A minute or so, with keys, for a script:
  outbox bench --rows 500000 --keys 10000 --duration 10s --json --database-url postgres://localhost/shop`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	flags := cmd.Flags()
	flags.IntVar(&f.rows, "rows", 50_000, "messages of the backlog, 100 to 10000000")
	flags.IntVar(&f.keys, "keys", 0, "keys of the backlog, 0 to 1000000; without keys there is no order")
	flags.StringVar(&f.payload, "payload", "512", "bytes of each payload, 8 to 64KiB")
	flags.StringVar(&f.duration, "duration", "5s", "time of each of the four runs that publish, 1s to 10m")
	flags.IntVar(&f.rate, "rate", 100, "messages per second while latency is measured, 1 to 10000")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		trial, err := f.trial()
		if err != nil {
			return &failure{exitUsage, err}
		}
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		trial.Tell = a.tell
		return a.bench(cmd.Context(), c, trial)
	})
	return cmd
}

// mostBytes bounds a backlog, which is written twice.
const mostBytes = 16 << 30

// trial checks the flags.
func (f *benchFlags) trial() (t bench.Trial, err error) {
	payload, err := parseSize(f.payload)
	if err != nil {
		return t, fmt.Errorf("--payload %q: %w", f.payload, err)
	}
	duration, err := outbox.ParseDuration(f.duration)
	if err != nil {
		return t, fmt.Errorf("--duration %q: %w", f.duration, err)
	}
	for _, n := range []struct {
		flag             string
		given            any
		value, low, high int64
		bound            string
	}{
		{"rows", f.rows, int64(f.rows), 100, 10_000_000, "100 to 10000000"},
		{"keys", f.keys, int64(f.keys), 0, 1_000_000, "0 to 1000000"},
		{"payload", f.payload, payload, 8, bench.MaxTrialPayload, "8 to 64KiB"},
		{"duration", f.duration, int64(duration), int64(time.Second), int64(10 * time.Minute), "1s to 10m"},
		{"rate", f.rate, int64(f.rate), 1, 10_000, "1 to 10000"},
	} {
		if n.value < n.low || n.value > n.high {
			return t, fmt.Errorf("--%s %v: must be %s", n.flag, n.given, n.bound)
		}
	}
	if int64(f.rows)*payload > mostBytes {
		return t, errors.New("--rows times --payload must be at most 16GiB")
	}
	return bench.Trial{Rows: f.rows, Keys: f.keys, Payload: int(payload), Duration: duration, MessageRate: f.rate}, nil
}

func (a *app) bench(ctx context.Context, c *config, trial bench.Trial) error {
	pool, err := c.poolConfig()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	facts, measures, err := trial.Run(ctx, pool)
	for _, schema := range facts.Abandoned {
		a.tell("there is another schema %s, of a bench that runs or was killed; if it was: drop schema %s cascade", schema, schema)
	}
	if err != nil && ctx.Err() != nil {
		return failf(exitFailed, "interrupted: %w", err)
	}
	if err != nil {
		return err
	}
	return a.showBench(trial, facts, measures)
}

type benchJSON struct {
	PostgreSQL       string        `json:"postgresql"`
	RoundTripSeconds float64       `json:"round_trip_seconds"`
	Rows             int           `json:"rows"`
	Keys             int           `json:"keys"`
	PayloadBytes     int           `json:"payload_bytes"`
	DurationSeconds  float64       `json:"duration_seconds"`
	Results          []measureJSON `json:"results"`
}

type measureJSON struct {
	Scenario    string   `json:"scenario"`
	Case        string   `json:"case"`
	Unit        string   `json:"unit"`
	Rate        float64  `json:"rate"`
	OfReference *float64 `json:"of_reference,omitempty"`
	P50Seconds  *float64 `json:"p50_seconds,omitempty"`
	P95Seconds  *float64 `json:"p95_seconds,omitempty"`
	P99Seconds  *float64 `json:"p99_seconds,omitempty"`
	MaxSeconds  *float64 `json:"max_seconds,omitempty"`
	RoundTrips  float64  `json:"round_trips_per_1000"`
	Connections int      `json:"connections"`
	Lost        int64    `json:"lost"`
	Duplicates  int64    `json:"duplicates"`
	Disorder    int64    `json:"disorder"`
}

func newMeasure(m bench.Measure) measureJSON {
	j := measureJSON{Scenario: m.Scenario, Case: m.Case, Unit: m.Unit, Rate: m.Rate,
		Lost: m.Faults.Lost, Duplicates: m.Faults.Duplicates, Disorder: m.Faults.Disorder}
	if !math.IsNaN(m.OfReference) {
		j.OfReference = &m.OfReference
	}
	for _, figure := range m.More {
		seconds := figure.Value / 1000
		switch figure.Name {
		case "p50 ms":
			j.P50Seconds = &seconds
		case "p95 ms":
			j.P95Seconds = &seconds
		case "p99 ms":
			j.P99Seconds = &seconds
		case "max ms":
			j.MaxSeconds = &seconds
		case "round trips/1k":
			j.RoundTrips = figure.Value
		case "conns":
			j.Connections = int(figure.Value)
		}
	}
	return j
}

func (a *app) showBench(trial bench.Trial, facts bench.Facts, measures []bench.Measure) error {
	doc := benchJSON{facts.Version, facts.RoundTrip.Seconds(), trial.Rows, trial.Keys, trial.Payload, trial.Duration.Seconds(), nil}
	var faults int64
	for _, m := range measures {
		j := newMeasure(m)
		faults += j.Lost + j.Duplicates + j.Disorder
		doc.Results = append(doc.Results, j)
	}
	var err error
	if a.json {
		err = a.printJSON(doc)
	} else {
		err = a.printBench(doc)
	}
	if err == nil && faults > 0 {
		return failf(exitFailed, "messages were lost, repeated or out of order: that must not be; please report it")
	}
	return err
}

func (a *app) printBench(doc benchJSON) error {
	a.printf("PostgreSQL %s, a round trip of %s, %s rows of %d bytes, %s keys\n\n", doc.PostgreSQL,
		milliseconds(&doc.RoundTripSeconds), count(int64(doc.Rows)), doc.PayloadBytes, count(int64(doc.Keys)))
	rows := [][]string{{"SCENARIO", "CASE", "RATE", "OF REFERENCE", "P50", "P99", "MAX", "ROUND TRIPS/1K", "LOST", "DUPLICATES", "DISORDER"}}
	for _, m := range doc.Results {
		of := "-"
		if m.OfReference != nil {
			of = fmt.Sprintf("%.2f", *m.OfReference)
		}
		rows = append(rows, []string{m.Scenario, m.Case, count(int64(m.Rate)) + " " + m.Unit, of,
			milliseconds(m.P50Seconds), milliseconds(m.P99Seconds), milliseconds(m.MaxSeconds), fmt.Sprintf("%.1f", m.RoundTrips),
			count(m.Lost), count(m.Duplicates), count(m.Disorder)})
	}
	return a.printTable(rows)
}

// milliseconds writes what may not have been measured.
func milliseconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.2fms", *s*1000)
}

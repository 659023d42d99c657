package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) topCommand() *cobra.Command {
	var once bool
	var interval string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the outbox in the terminal",
		Long: `Watch the outbox in the terminal: what status shows, again and again, and how fast each relay works. Ctrl-C ends it.

Without a terminal, and with --once, it shows one picture and ends. With --json it writes a line of JSON at each interval.
The rates of relays are between their last heartbeats, the latency is the mean time from publishing to acceptance of what was
delivered between these.`,
		Example: `  outbox top --database-url postgres://localhost/shop
  outbox top --json --interval 10s`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.Flags().BoolVar(&once, "once", false, "show one picture and end")
	cmd.Flags().StringVar(&interval, "interval", "2s", "time between two pictures, 1s to 1h")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		every, err := parseInterval(interval)
		if err != nil {
			return err
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.top(ctx, store, every, once)
		})
	})
	return cmd
}

func parseInterval(text string) (time.Duration, error) {
	d, err := outbox.ParseDuration(text)
	if err == nil && (d < time.Second || d > time.Hour) {
		err = fmt.Errorf("must be 1s to 1h")
	}
	if err != nil {
		return 0, failf(exitUsage, "--interval %q: %w", text, err)
	}
	return d, nil
}

// top shows pictures until ctx ends.
func (a *app) top(ctx context.Context, store outbox.Inspector, every time.Duration, once bool) error {
	s := newScreen(a.stdout)
	show := a.showPlain
	switch {
	case a.json:
		show = a.showJSON
	case s == nil:
		once = true
	case !once:
		s.begin()
		defer s.end()
		show = func(p *picture) error { return s.show(p.lines()) }
	}
	rates := relayRates{}
	for {
		began := time.Now()
		st, err := ask(ctx, store.Status)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (once || a.json):
			return err
		}
		if err := show(&picture{st: st, err: err, rates: rates.next(st.At, st.Relays), every: every, app: a}); err != nil || once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(every-time.Since(began), 0)):
		}
	}
}

// picture is what is shown at a time.
type picture struct {
	st    outbox.Status
	err   error // the database could not be asked
	rates map[outbox.ID]relayRate
	every time.Duration
	*app  // whose commands are shown
}

func (p *picture) lines() []string {
	if p.err != nil {
		return []string{"the database could not be asked; trying again every " + p.every.String(), "", oneLine(p.err.Error())}
	}
	st := &p.st
	lines := []string{fmt.Sprintf("outbox on %s  schema %s version %d  %s  every %s, Ctrl-C ends", oneLine(st.Database), oneLine(st.Schema),
		st.SchemaVersion, utc(st.At).Format("15:04:05Z"), p.every), ""}
	var buf bytes.Buffer
	_ = writeTable(&buf, p.completed(statusRows(st))) // a buffer takes everything
	buf.WriteString("\n")
	_ = writeTable(&buf, p.relayRows())
	return append(lines, strings.Split(strings.TrimRight(buf.String(), "\n"), "\n")...)
}

func (p *picture) relayRows() [][]string {
	rows := [][]string{{"HOST", "PID", "STATE", "SEEN", "DELIVERED", "PER SECOND", "LATENCY", "RETRIED", "DEAD", "IN FLIGHT", "DESTINATIONS"}}
	for _, r := range p.st.Relays {
		j := newRelay(r)
		perSecond, latency := "", ""
		if rate, ok := p.rates[r.ID]; ok {
			perSecond = fmt.Sprintf("%.0f", rate.perSecond)
			if rate.latency > 0 {
				latency = rate.latency.Round(100 * time.Microsecond).String()
			}
		}
		rows = append(rows, []string{r.Host, fmt.Sprint(r.PID), j.state(), age(r.Seen), count(r.Counters["delivered"]), perSecond, latency,
			count(r.Counters["retried"]), count(r.Counters["dead"]), count(r.InFlight), laneStates(j.Destinations)})
	}
	return rows
}

// laneStates are the destinations, with the state of those that are not available.
func laneStates(lanes []laneJSON) string {
	words := make([]string, len(lanes))
	for i, l := range lanes {
		words[i] = l.Name
		if l.State != outbox.StateAvailable {
			words[i] += " (" + l.State + ")"
		}
	}
	return strings.Join(words, ", ")
}

func (a *app) showPlain(p *picture) error {
	for _, line := range p.lines() {
		a.printf("%s\n", line)
	}
	return nil
}

type topJSON struct {
	statusJSON
	Rates []rateJSON `json:"relay_rates"`
}

type rateJSON struct {
	Relay              string  `json:"relay"`
	DeliveredPerSecond float64 `json:"delivered_per_second"`
	LatencySeconds     float64 `json:"latency_seconds"`
}

func (a *app) showJSON(p *picture) error {
	j := topJSON{a.statusJSON(&p.st), []rateJSON{}}
	for _, r := range p.st.Relays {
		if rate, ok := p.rates[r.ID]; ok {
			j.Rates = append(j.Rates, rateJSON{r.ID.String(), rate.perSecond, rate.latency.Seconds()})
		}
	}
	return a.printJSON(j)
}

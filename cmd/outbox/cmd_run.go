package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) runCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a relay",
		Long: `Run a relay: it delivers messages until it is told to stop.

It answers probes (/livez, /readyz), scrapes (/metrics) and those who look (/statusz) on --admin-listen, and exports by
OTLP where the standard variables OTEL_EXPORTER_OTLP_ENDPOINT and others say.

SIGTERM or SIGINT stops it: it takes no new messages, gives back what it has not begun, waits up to the drain timeout
for running deliveries and ends. A second signal cancels those at once. A database or a destination that is absent, at
the start or later, is waited for.

Behind PgBouncer in transaction mode, add default_query_exec_mode=exec to the database URL (or set
max_prepared_statements in PgBouncer 1.21 or later), and give --database-listen-url a direct connection or set
--notify off. outbox check tells whether all is well.

With --once it delivers all that is due and ends. It awaits no backoff and no destination that is unavailable: then messages
remain, it says which destination that is, and its exit code is 4.

Exit codes: 0 stopped as asked, 1 failed, 2 configuration, 4 with --once: a destination takes nothing and messages remain,
5 stopped while a delivery was still running, or with --once before the end.`,
		Example: `  # One destination, without a file:
  outbox run --database-url postgres://localhost/shop --to stdout:

  # Several destinations, from a file that outbox init began:
  outbox run --config outbox.yaml

  # Deliver all that is due and end, for cron:
  outbox run --config outbox.yaml --once`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&once, "once", false, "deliver all that is due, print the counts and end")
	addSettings(cmd, scopeRelay)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		return a.relay(cmd.Context(), c, once)
	})
	return cmd
}

func (a *app) relay(ctx context.Context, c *config, once bool) error {
	if len(c.targets()) == 0 && !c.relay.DisableRelay {
		return failf(exitUsage, "where to? Set --to, OUTBOX_TO, or destinations in the file of --config")
	}
	log := a.newLogger(c)
	store, closeStore, err := c.openOutbox(ctx, true, log)
	if err != nil {
		return err
	}
	defer closeStore()
	sinks, closeSinks, err := c.openSinks(ctx, sinkEnv{app: a, log: log})
	if err != nil {
		return err
	}
	defer closeSinks()
	cfg := c.relay
	cfg.Logger, cfg.Version = log, version()
	routes := c.relayRoutes(sinks)
	observed, err := a.observe(ctx, c, log, once)
	if err != nil {
		return err
	}
	cfg.Hooks = observed.hooks
	relay, err := outbox.NewRelay(store, routes, &cfg)
	if err != nil {
		return errors.Join(err, observed.stop(ctx))
	}
	observed.serve(relay, c, log)
	defer func() {
		if err := observed.stop(ctx); err != nil {
			log.Warn("telemetry could not be exported to its end", "error", err)
		}
	}()
	ctx, end := stopOnSignals(ctx, log, relay.Abort)
	defer end()
	if once {
		return a.runOnce(ctx, relay, store)
	}
	return abandoned(relay.Run(ctx))
}

// abandoned gives the error of work that was left behind its exit code.
func abandoned(err error) error {
	if errors.Is(err, outbox.ErrDrainTimeout) {
		return &failure{exitAbandoned, err}
	}
	return err
}

func (a *app) runOnce(ctx context.Context, relay *outbox.Relay, store outbox.Inspector) error {
	n, err := relay.RunUntilIdle(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return &failure{exitAbandoned, err}
	case err != nil:
		return abandoned(err)
	case a.json:
		if err := a.printJSON(countsJSON(n)); err != nil {
			return err
		}
	default:
		a.tell("delivered %d, retried %d, dead %d, dropped %d, expired %d, given back %d",
			n.Delivered, n.Retried, n.Dead, n.Dropped, n.Expired, n.GivenBack)
	}
	return remaining(ctx, relay.Health().Lanes, n, store)
}

// remaining tells that messages remain because a destination takes none. No call has failed then, and nobody would look.
func remaining(ctx context.Context, lanes []outbox.LaneHealth, n outbox.Counts, store outbox.Inspector) error {
	var down []string
	for _, l := range lanes {
		if l.Fault != nil {
			down = append(down, fmt.Sprintf("destination %s is %s: %s", l.Destination, l.Fault.State(), l.Fault.Reason))
		}
	}
	if len(down) == 0 {
		return nil
	}
	d, err := ask(ctx, store.Depths)
	if err != nil {
		return err
	}
	if n.GivenBack == 0 && d.Ready.Messages == 0 && d.Retrying.Messages == 0 {
		return nil
	}
	return failf(exitUnhealthy, "messages remain (%s): %s", depthWords(d), strings.Join(down, "; "))
}

// openSinks makes the sinks of all destinations.
func (c *config) openSinks(ctx context.Context, env sinkEnv) (sinks map[string]outbox.Sink, closeAll func(), err error) {
	sinks = map[string]outbox.Sink{}
	closeAll = func() {
		for _, sink := range sinks {
			if closer, ok := sink.(interface{ Close() }); ok {
				closer.Close()
			}
		}
	}
	for _, d := range c.targets() {
		relay := c.relay.WithDefaults()
		env.topics, env.retry, env.attempts = c.topicsOf(d), &relay.Retry, relay.MaxAttempts
		sink, err := d.open(ctx, env)
		if err != nil {
			closeAll()
			return nil, nil, &failure{exitUsage, err} // opening waits for nothing: what fails is the configuration
		}
		sinks[d.name] = sink
	}
	return sinks, closeAll, nil
}

// stopOnSignals ends the context at the first SIGTERM or SIGINT and calls second at the second; a third one has its
// usual effect. end must be called.
func stopOnSignals(ctx context.Context, log *slog.Logger, second func()) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for _, react := range []func(os.Signal){
			func(s os.Signal) {
				log.Info("stopping; a second signal cancels running deliveries", "signal", s.String())
				cancel(fmt.Errorf("signal: %s", s))
			},
			func(s os.Signal) {
				log.Warn("cancelling running deliveries", "signal", s.String())
				second()
			},
		} {
			select {
			case s := <-signals:
				react(s)
			case <-done:
				return
			}
		}
		signal.Stop(signals)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel(nil)
	}
}

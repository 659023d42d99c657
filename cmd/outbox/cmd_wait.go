package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) waitCommand() *cobra.Command {
	var timeout string
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the outbox is empty",
		Long: `Wait until nothing is left to deliver: no message is ready, in flight, retrying or scheduled. Dead letters do not count.

Exit codes: 0 empty, 1 not empty within the timeout, or the database could not be asked.`,
		Example: `  outbox wait --timeout 5m --database-url postgres://localhost/shop && echo drained`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.Flags().StringVar(&timeout, "timeout", "", "give up after this time, such as 30s or 10m (default: never)")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		limit, err := parseTimeout(timeout)
		if err != nil {
			return err
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			begin := time.Now()
			d, err := a.waitEmpty(ctx, store, limit)
			if err != nil {
				return err
			}
			if a.json {
				err := a.printJSON(map[string]any{"empty": d.Empty(), "waited_seconds": round(time.Since(begin)),
					"ready": newDepth(d.Ready), "in_flight": d.InFlight, "retrying": newDepth(d.Retrying), "scheduled": newDepth(d.Scheduled)})
				if err != nil {
					return err
				}
			}
			if !d.Empty() {
				return fmt.Errorf("not empty after %s: %s", age(time.Since(begin)), depthWords(d))
			}
			return nil
		})
	})
	return cmd
}

func parseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := outbox.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("must be above zero")
	}
	if err != nil {
		return 0, failf(exitUsage, "--timeout %q: %w", text, err)
	}
	return d, nil
}

// waitEmpty polls until the outbox is empty or the limit is over, and tells how it is getting on.
func (a *app) waitEmpty(ctx context.Context, store outboxStore, limit time.Duration) (d outbox.Depths, err error) {
	const interval, talkInterval = 200 * time.Millisecond, 5 * time.Second
	begin := time.Now()
	talk := begin.Add(talkInterval)
	if limit > 0 { // for the database may not answer
		const patience = time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit+patience)
		defer cancel()
	}
	for {
		if d, err = store.Depths(ctx); err != nil || d.Empty() {
			return d, err
		}
		now := time.Now()
		if limit > 0 && now.Sub(begin) >= limit {
			return d, nil
		}
		if now.After(talk) {
			a.tell("waiting: %s", depthWords(d))
			talk = now.Add(talkInterval)
		}
		select {
		case <-ctx.Done():
			return d, context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}

func depthWords(d outbox.Depths) string {
	return fmt.Sprintf("%s ready, %s in flight, %s retrying, %s scheduled",
		depth(d.Ready), count(d.InFlight), depth(d.Retrying), depth(d.Scheduled))
}

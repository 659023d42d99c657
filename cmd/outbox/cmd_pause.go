package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// pauseFlags are those of pause and resume.
type pauseFlags struct {
	pause       outbox.Pause
	dryRun, yes bool
	nothing     string // is said when there is nothing to change
	done        string
	change      func(*pgstore.Store, context.Context, outbox.Pause) (outbox.ChangeReport, error)
}

func (a *app) pauseCommand() *cobra.Command {
	return a.controlCommand(&cobra.Command{
		Use:   "pause",
		Short: "Keep all relays from delivering a topic or to a destination",
		Long: `Keep all relays from claiming messages of a topic pattern, or for a destination, until it is resumed. What is in delivery goes
on. Paused messages hold their keys, so nothing gets out of order. Pausing again replaces the reason.`,
		Example: `  outbox pause --topic 'billing.>' --reason 'invoices are wrong, see the incident channel'
  outbox pause --destination events --reason 'maintenance of the broker'`,
	}, &pauseFlags{done: "paused",
		change: (*pgstore.Store).Pause})
}

func (a *app) controlCommand(cmd *cobra.Command, f *pauseFlags) *cobra.Command {
	cmd.Args = cobra.NoArgs
	flags := cmd.Flags()
	flags.StringVar(&f.pause.Topic, "topic", "", "a topic or a `pattern`, such as orders.>")
	flags.StringVar(&f.pause.Destination, "destination", "", "the `name` of a destination")
	flags.StringVar(&f.pause.Reason, "reason", "", "`why`; recorded")
	flags.StringVar(&f.pause.Actor, "actor", "", "`who`; recorded (default: user@host)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	flags.BoolVarP(&f.yes, "yes", "y", false, "as for other changes; this one never asks")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if (f.pause.Topic == "") == (f.pause.Destination == "") {
			return failf(exitUsage, "what? give --topic or --destination, one of them")
		}
		if err := f.pause.Check(); err != nil {
			return &failure{exitUsage, err}
		}
		if f.pause.Actor == "" {
			f.pause.Actor = whoami()
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, store *pgstore.Store) error {
			return a.runControl(ctx, store, f)
		})
	})
	return cmd
}

func (a *app) runControl(ctx context.Context, store *pgstore.Store, f *pauseFlags) error {
	what := "topic " + f.pause.Topic
	if f.pause.Topic == "" {
		what = "destination " + f.pause.Destination
	}
	if f.dryRun {
		if a.json {
			return a.printJSON(changeJSON{DryRun: true, Matched: 1})
		}
		a.printf("would be %s: %s\n", f.done, what)
		return nil
	}
	report, err := f.change(store, ctx, f.pause)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.printJSON(changeJSON{Operation: report.Operation, Matched: report.Matched, Changed: report.Changed}); err != nil {
			return err
		}
	}
	switch {
	case report.Changed == 0:
		return &failure{exitNothing, fmt.Errorf("%s %s; see: outbox keys", what, f.nothing)}
	case !a.json:
		a.printf("%s: %s (operation %d)\n", f.done, what, report.Operation)
	}
	return nil
}

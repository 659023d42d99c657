package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

// pauseFlags are those of pause and resume.
type pauseFlags struct {
	pause       outbox.Pause
	dryRun, yes bool
	nothing     string // is said when there is nothing to change
	done        string
	change      func(outboxStore, context.Context, outbox.Pause) (outbox.ChangeReport, error)
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
		change: outboxStore.Pause})
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
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			return a.runControl(ctx, store, f)
		})
	})
	return cmd
}

func (a *app) runControl(ctx context.Context, store outboxStore, f *pauseFlags) error {
	what := "topic " + f.pause.Topic
	if f.pause.Topic == "" {
		what = "destination " + f.pause.Destination
	}
	change := f.change
	if f.dryRun {
		change = f.dryControl
	}
	report, err := change(store, ctx, f.pause)
	if err != nil {
		return err
	}
	if a.json {
		err := a.printJSON(changeJSON{Operation: report.Operation, DryRun: f.dryRun, Matched: report.Matched, Changed: report.Changed})
		if err != nil {
			return err
		}
	}
	if report.Matched == 0 {
		return &failure{exitNothing, fmt.Errorf("%s %s; see: %s", what, f.nothing, a.next("outbox keys"))}
	}
	switch {
	case a.json:
	case f.dryRun:
		a.printf("would be %s: %s\n", f.done, what)
	default:
		a.printf("%s: %s (operation %d)\n", f.done, what, report.Operation)
	}
	if names := otherDestinations(ctx, store, f.pause.Destination); len(names) > 0 {
		a.tell("no live relay has a destination %s, theirs are: %s", f.pause.Destination, strings.Join(names, ", "))
	}
	return nil
}

// dryControl says what a change would find: anything can be paused, and what is paused resumed.
func (f *pauseFlags) dryControl(store outboxStore, ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	if f.nothing == "" {
		return outbox.ChangeReport{Matched: 1}, nil
	}
	keys, err := store.Keys(ctx, 1)
	found := slices.ContainsFunc(keys.Pauses, func(o outbox.Pause) bool {
		return o.Topic == p.Topic && o.Destination == p.Destination
	})
	if err != nil || !found {
		return outbox.ChangeReport{}, err
	}
	return outbox.ChangeReport{Matched: 1}, nil
}

// otherDestinations are those of live relays when none has this one: it may be misspelt. Whoever may pause need not
// have the right to look at relays.
func otherDestinations(ctx context.Context, store outboxStore, destination string) []string {
	relays, err := store.Relays(ctx)
	if err != nil || destination == "" {
		return nil
	}
	var names []string
	for _, r := range relays {
		for _, d := range r.Lanes {
			if r.Live {
				names = append(names, d.Destination)
			}
		}
	}
	slices.Sort(names)
	if slices.Contains(names, destination) {
		return nil
	}
	return slices.Compact(names)
}

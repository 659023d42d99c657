package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// addStates adds the flag that says in which states messages are looked for.
func (f *changeFlags) addStates(cmd *cobra.Command, known string) {
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "messages in these `states`: "+known)
}

// purgeCommand is purge, or an alias of it that people know from elsewhere, which means what was delivered.
func (a *app) purgeCommand(name string) *cobra.Command {
	f := &changeFlags{verb: "purge", done: "purged",
		change: outboxStore.Purge}
	cmd := a.changeCommand(&cobra.Command{
		Use:    name,
		Hidden: name != "purge",
		Short:  "Forget messages that have ended, or dead ones",
		Long: `Forget messages that have ended and are kept in the archive (delivered, dropped, expired, discarded), and dead ones. Which of
them, --state says. What is ready, waiting or held by a relay is never touched. A dead message that holds its key is left alone, since
what waits behind it would go on, unless --holding is given.

Where a whole partition of the archive is meant it is dropped, at once; with --rate, --limit or other filters than an age its messages
are deleted one by one.

` + filterHelp,
		Example: `  outbox purge --state delivered,dropped,expired,discarded --older-than 90d --yes
  outbox purge --state dead --older-than 30d --topic 'audit.>' --reason 'nobody will look at these'`,
	}, f)
	f.addStates(cmd, "delivered, dropped, expired, discarded, dead")
	cmd.Flags().BoolVar(&f.holding, "holding", false, "also dead messages that hold their key")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if name == "cleanup" && len(f.states) == 0 && f.goOn == 0 {
			f.states = []string{"delivered"}
		}
		if len(f.states) == 0 && f.goOn == 0 {
			return &failure{exitUsage, errors.New("--state: must say what is to be forgotten: delivered, dropped, expired, discarded, dead")}
		}
		return run(cmd, args)
	}
	return cmd
}

func (a *app) replayCommand() *cobra.Command {
	f := &changeFlags{verb: "replay", done: "replayed",
		change: outboxStore.Replay}
	f.before = func(ctx context.Context, store outboxStore) error {
		if names := otherDestinations(ctx, store, f.destination); len(names) > 0 {
			return failf(exitUsage, "--destination %s: no live relay has it, and nobody would take the messages; theirs are: %s. Start one that has it first, or correct the name",
				f.destination, strings.Join(names, ", "))
		}
		if isUntaken(ctx, store, f.destination, f.topic) {
			return failf(exitUsage, "--topic %s: no live relay delivers it to %s, and nobody would take the messages. Add it to the routes of that destination first", f.topic, f.destination)
		}
		return nil
	}
	cmd := a.changeCommand(&cobra.Command{
		Use:   "replay",
		Short: "Deliver archived messages again, to one destination",
		Long: `Deliver messages again that have ended and are kept in the archive, to one destination only: a consumer has lost them, or a
new one shall have them. Those that were delivered, unless --state says otherwise. They are due now and their life has no end; their generation is
one higher, so a broker that still knows their ids takes them all the same. With a key they hold it in that destination:
what is younger waits for them. What is under way already, or dead, is left alone.

` + filterHelp,
		Example: `  # The warehouse has lost a day:
  outbox replay --destination warehouse --topic 'orders.>' --newer-than 1d --rate 200 --reason 'restored from backup'`,
	}, f)
	f.addStates(cmd, "delivered, dropped, expired, discarded")
	cmd.Flags().StringVar(&f.destination, "destination", "", "the `name` of the destination")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.destination == "" && f.goOn == 0 {
			return &failure{exitUsage, errors.New("--destination: must name the one destination that gets the messages")}
		}
		return run(cmd, args)
	}
	return cmd
}

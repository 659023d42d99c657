package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) discardCommand() *cobra.Command {
	f := &changeFlags{verb: "discard", done: "discarded",
		change: outboxStore.Discard}
	cmd := a.changeCommand(&cobra.Command{
		Use:   "discard",
		Short: "Remove messages without delivering them",
		Long: `Remove ready, waiting and dead messages without delivering them, for a --reason. There is no way back. A key that such a
message held goes on with the next one.

A message that a live relay holds is left alone and reported, exit code 1. With --wait the command waits for the relay, and
the message is removed together with the failure of its delivery, before it can be tried again; when it is delivered after
all, it was delivered.

` + filterHelp,
		Example: `  # A message that can never be delivered blocks its key:
  outbox discard --id 019545c8-4c35-7000-8000-000000000001 --reason 'order 7 was deleted' --wait 30s`,
	}, f)
	f.addStates(cmd, "ready, waiting, dead")
	f.addBound(cmd)
	cmd.Flags().StringVar(&f.wait, "wait", "", "wait for so `long` for relays that hold such messages, such as 30s")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.reason == "" && !f.dryRun && f.goOn == 0 {
			return &failure{exitUsage, errors.New("--reason: must say why the messages are discarded")}
		}
		return run(cmd, args)
	}
	return cmd
}

package main

import (
	"github.com/spf13/cobra"
)

func (a *app) resumeCommand() *cobra.Command {
	return a.controlCommand(&cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		Long: `End the pause of exactly this topic pattern or destination. What has gathered is delivered in order.

Exit codes: 0 resumed, 1 failed, 2 usage, 3 it was not paused.`,
		Example: `  outbox resume --topic 'billing.>' --reason 'invoices are right again'`,
	}, &pauseFlags{done: "resumed", nothing: "is not paused",
		change: outboxStore.Resume})
}

package main

import (
	"github.com/spf13/cobra"
)

func (a *app) retryCommand() *cobra.Command {
	f := &changeFlags{verb: "retry", done: "made due",
		change: outboxStore.Retry}
	cmd := a.changeCommand(&cobra.Command{
		Use:   "retry",
		Short: "Try messages now that wait for their next attempt",
		Long: `Try messages now that wait for their next attempt, instead of at the end of their backoff. Their attempts stay. Scheduled
messages, which have not been tried yet, keep their time unless they are named by --id.

` + byRouteHelp + `

` + filterHelp,
		Example: `  # The receiver is repaired; nobody wants to wait five minutes for the backoff:
  outbox retry --topic 'billing.>' --reason 'billing is back' --yes
  # A replay has bound them to a destination that was taken out of the configuration since:
  outbox retry --destination warehouse --by-route --reason 'warehouse is no more'`,
	}, f)
	f.addByRoute(cmd)
	return cmd
}

package main

import (
	"github.com/spf13/cobra"
)

// redriveCommand is redrive, or an alias of it that people know from elsewhere.
func (a *app) redriveCommand(name string) *cobra.Command {
	f := &changeFlags{verb: "redrive", done: "redriven",
		change: outboxStore.Redrive}
	cmd := a.changeCommand(&cobra.Command{
		Use:    name,
		Hidden: name != "redrive",
		Short:  "Deliver dead messages again",
		Long: `Deliver dead messages again: due now, their attempts from 0. A message with a key holds it from then on, so no younger one of
the key is delivered before it. Its generation is one higher, so a broker that still knows its id takes it all the same.

` + byRouteHelp + `
Dead ones that are bound to a destination where no live relay would take them are left alone otherwise, exit code 1.

` + filterHelp,
		Example: `  # What the billing outage killed in the last two hours, after a look at how much that is:
  outbox redrive --topic 'billing.>' --class timeout --newer-than 2h --dry-run
  outbox redrive --topic 'billing.>' --class timeout --newer-than 2h --reason 'billing is back' --rate 100`,
	}, f)
	f.addByRoute(cmd)
	return cmd
}

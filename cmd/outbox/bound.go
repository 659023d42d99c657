package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

const byRouteHelp = `A replay binds messages to one destination. --destination means those, and --by-route ends the binding: the routes decide again where
they go. With a key they hold it there from then on. One that a live relay holds is left alone.`

// addBound adds the flag that means messages which are bound to a destination.
func (f *changeFlags) addBound(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.bound, "destination", "", "messages that a replay has bound to the destination of this `name`")
}

// addByRoute adds the flag that ends the binding, beside addBound. Without it what waits for a destination that no live relay has would go
// on waiting, so that is refused.
func (f *changeFlags) addByRoute(cmd *cobra.Command) {
	f.addBound(cmd)
	cmd.Flags().BoolVar(&f.byRoute, "by-route", false, "with --destination: let the routes decide again where the messages go")
	f.before = func(ctx context.Context, store outboxStore) error {
		if f.byRoute || f.bound == "" {
			return nil
		}
		if names := otherDestinations(ctx, store, f.bound); len(names) > 0 {
			return failf(exitUsage, "--destination %s: no live relay has it, and nobody would take the messages; theirs are: %s. Start one that has it first, or add --by-route",
				f.bound, strings.Join(names, ", "))
		}
		return nil
	}
}

// isUntaken reports whether live relays have the destination and none delivers the topic there. Of a pattern nobody knows.
func isUntaken(ctx context.Context, store outboxStore, destination, topic string) bool {
	relays, err := store.Relays(ctx)
	if err != nil || topic == "" || strings.ContainsAny(topic, "*>") {
		return false
	}
	has := false
	for _, r := range relays {
		for _, l := range r.Lanes {
			switch {
			case !r.Live || l.Destination != destination:
			case l.Topics.Contains(topic):
				return false
			default:
				has = true
			}
		}
	}
	return has
}

// strandedText says what keeps messages that are bound to where no live relay would take them.
func strandedText(s *outbox.Stranded) string {
	verb := "wait"
	if s.Messages.Messages == 1 && !s.Messages.AtLeast {
		verb = "waits"
	}
	more := ""
	if s.Messages.AtLeast {
		more = "+"
	}
	return count(s.Messages.Messages) + more + " " + verb + " for " + s.Lack()
}

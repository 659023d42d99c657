package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) healthCommand() *cobra.Command {
	var anywhere bool
	var host string
	var pid int
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Tell whether a relay lives",
		Long: `Tell whether a relay on this host lives, by its lease in the database. It is made for exec probes: silent when there is
one, unless --json is given.

Exit codes: 0 a live relay, 1 the database could not be asked, 4 no live relay.`,
		Example: `  # In a container, where the relay is the only one on its host:
  outbox health

  # From elsewhere:
  outbox health --any --database-url postgres://localhost/shop`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.Flags().BoolVar(&anywhere, "any", false, "accept a relay on any host")
	cmd.Flags().StringVar(&host, "host", "", "the relay's host, if not this one")
	cmd.Flags().IntVar(&pid, "pid", 0, "the relay's process id, if there are several on the host")
	cmd.MarkFlagsMutuallyExclusive("any", "host")
	cmd.MarkFlagsMutuallyExclusive("any", "pid")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if host == "" {
			var err error
			if host, err = os.Hostname(); err != nil && !anywhere {
				return fmt.Errorf("the name of this host: %w", err)
			}
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			relays, err := ask(ctx, store.Relays)
			if err != nil {
				return err
			}
			for _, r := range relays {
				if r.Live && (anywhere || r.Host == host && (pid == 0 || pid == r.PID)) {
					return a.healthy(r)
				}
			}
			return a.unhealthy(host, anywhere)
		})
	})
	return cmd
}

type healthJSON struct {
	Healthy bool       `json:"healthy"`
	Relay   *relayJSON `json:"relay,omitempty"`
}

func (a *app) healthy(r outbox.RelayStatus) error {
	if !a.json {
		return nil
	}
	relay := newRelay(r)
	return a.printJSON(healthJSON{true, &relay})
}

func (a *app) unhealthy(host string, anywhere bool) error {
	if a.json {
		if err := a.printJSON(healthJSON{}); err != nil {
			return err
		}
	}
	if anywhere {
		return failf(exitUnhealthy, "no live relay")
	}
	return failf(exitUnhealthy, "no live relay on %s; --any accepts those of other hosts", host)
}

package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) relaysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relays",
		Short: "List the registered relays",
		Long: `List the registered relays and what each delivers, as of its last heartbeat. One that sends none any longer is
overdue: it was killed, is suspended, or does not reach the database. It holds its messages until its lease lapses. Then it is
listed until another relay removes it, which then delivers what it held.`,
		Example: `  outbox relays --database-url postgres://localhost/shop
  outbox relays --json | jq '.relays[] | select(.live) | .host'`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			relays, err := ask(ctx, store.Relays)
			if err != nil {
				return err
			}
			list := []relayJSON{}
			for _, r := range relays {
				list = append(list, newRelay(r))
			}
			if a.json {
				return a.printJSON(map[string]any{"relays": list})
			}
			if len(list) == 0 {
				a.tell("no relays; start one: %s", a.next("outbox run"))
				return nil
			}
			return a.printTable(relayRows(list))
		})
	})
	return cmd
}

func relayRows(list []relayJSON) [][]string {
	rows := [][]string{{"HOST", "PID", "STATE", "SEEN", "VERSION", "ENGINE", "SETTINGS", "DELIVERED", "RETRIED", "DEAD", "IN FLIGHT", "DESTINATIONS"}}
	for _, r := range list {
		rows = append(rows, []string{r.Host, strconv.Itoa(r.PID), r.state(), age(seconds(r.SeenSeconds)) + " ago", r.Version, r.Engine, r.Settings,
			count(r.Counters["delivered"]), count(r.Counters["retried"]), count(r.Counters["dead"]), count(r.InFlight), laneWords(r.Destinations)})
	}
	return rows
}

// laneWords are the destinations with their topics: events(orders.> audit.>).
func laneWords(lanes []laneJSON) string {
	words := make([]string, len(lanes))
	for i, l := range lanes {
		words[i] = l.Name + "(" + strings.Join(l.Topics, " ") + ")"
	}
	return strings.Join(words, " ")
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for what is wrong or will go wrong",
		Long: `Look for what is wrong or will go wrong: connection and server, a pooler, schema, privileges, sequence, notifications,
live relays, topics that nobody handles, what holds vacuum back, destinations. Each finding comes with the line that
fixes it. Nothing is changed.

Exit codes: 0 nothing found, 2 configuration, 4 a finding.`,
		Example: `  outbox check --config outbox.yaml`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeRelay)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, c *config, store *pgstore.Store) error {
			found := store.Check(ctx)
			if len(found) > 0 && reachable(found) {
				found = append(found, a.checkRunning(ctx, store)...)
			}
			found = append(found, a.checkDestinations(ctx, c)...)
			return a.reportFindings(found)
		})
	})
	return cmd
}

// reachable reports whether the schema could be looked at.
func reachable(found []pgstore.Finding) bool {
	for _, f := range found {
		if f.Check == "privileges" {
			return f.OK
		}
	}
	return false
}

// checkRunning looks at what status would warn of.
func (a *app) checkRunning(ctx context.Context, store *pgstore.Store) []pgstore.Finding {
	st, err := store.Status(ctx)
	if err != nil {
		return []pgstore.Finding{{Check: "status", Text: err.Error(), Fix: "outbox status"}}
	}
	found := []pgstore.Finding{{Check: "relays", OK: true, Text: relaySummary(&st)}}
	if st.LiveRelays() == 0 {
		found[0] = pgstore.Finding{Check: "relays", Text: "no live relay: nothing is delivered", Fix: "outbox run"}
	}
	return append(found, warningFindings(&st)...)
}

func warningFindings(st *outbox.Status) (found []pgstore.Finding) {
	if st.LiveRelays() > 0 {
		for _, t := range st.Unhandled {
			found = append(found, pgstore.Finding{Check: "topics", Text: fmt.Sprintf("%q has ready messages and no live relay handles it", t.Topic),
				Fix: fmt.Sprintf("add a route: - {topics: [%q], to: …}", t.Topic)})
		}
	}
	for _, d := range st.MixedSettings() {
		found = append(found, pgstore.Finding{Check: "settings", Text: mixedText(d), Fix: "give them the same configuration; outbox config prints what each has"})
	}
	if h := st.Horizon; h != nil {
		found = append(found, pgstore.Finding{Check: "vacuum", Text: fmt.Sprintf("held back for %s by %s %s, %s", age(h.Age), h.Kind, h.Name, h.Text),
			Fix: releaseHorizon(h)})
	}
	return found
}

// preflightPatience bounds the preflight of one destination.
const preflightPatience = 10 * time.Second

func (a *app) checkDestinations(ctx context.Context, c *config) (found []pgstore.Finding) {
	sinks, closeSinks, err := c.openSinks(ctx, sinkEnv{app: a, log: a.newLogger(c)})
	if err != nil {
		return []pgstore.Finding{{Check: "destinations", Text: err.Error(), Fix: "outbox config"}}
	}
	defer closeSinks()
	for _, d := range c.targets() {
		found = append(found, preflight(ctx, d.name, sinks[d.name]))
	}
	return found
}

func preflight(ctx context.Context, name string, sink outbox.Sink) pgstore.Finding {
	p, ok := sink.(outbox.Preflighter)
	if !ok {
		return pgstore.Finding{Check: "destination " + name, OK: true, Text: "cannot be tried"}
	}
	ctx, cancel := context.WithTimeout(ctx, preflightPatience)
	defer cancel()
	if err := p.Preflight(ctx); err != nil {
		return pgstore.Finding{Check: "destination " + name, Text: err.Error(), Fix: fmt.Sprintf("see destinations.%s; outbox config prints it", name)}
	}
	return pgstore.Finding{Check: "destination " + name, OK: true, Text: "works"}
}

type findingJSON struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

func (a *app) reportFindings(found []pgstore.Finding) error {
	bad := 0
	list := []findingJSON{}
	rows := [][]string{}
	for _, f := range found {
		mark := "ok"
		if !f.OK {
			mark = "FOUND"
			bad++
		}
		rows = append(rows, []string{mark, f.Check, f.Text})
		if f.Fix != "" {
			rows = append(rows, []string{"", "", "→ " + f.Fix})
		}
		list = append(list, findingJSON(f))
	}
	var err error
	if a.json {
		err = a.printJSON(map[string]any{"ok": bad == 0, "findings": list})
	} else {
		err = a.printTable(rows)
	}
	if err == nil && bad > 0 {
		return silently(exitUnhealthy)
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for what is wrong or will go wrong",
		Long: `Look for what is wrong or will go wrong: connection and server, a pooler, schema, privileges, a database that is a restored
copy, sequence, the budget of connections, the archive's partitions, what holds vacuum back, notifications, what the WAL
engine needs, live relays and what they tell, topics that nobody handles, messages that are bound to where nobody takes them,
destinations. Each finding comes with the line
that fixes it: a command to type, SQL to paste, which ends in a semicolon, or in words what to change. Nothing is changed.

Exit codes: 0 nothing found, 2 configuration, 4 a finding.`,
		Example: `  outbox check --config outbox.yaml`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeRelay)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, c *config, store *pgstore.Store) error {
			found := store.Check(ctx)
			if len(found) > 0 && reachable(found) {
				found = append(found, checkRunning(ctx, c, store)...)
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

// checkRunning looks at what status would warn of, beside what Store.Check has found.
func checkRunning(ctx context.Context, c *config, store *pgstore.Store) []pgstore.Finding {
	st, err := store.Status(ctx)
	if err != nil {
		return []pgstore.Finding{{Check: "status", Text: err.Error(), Fix: "outbox status"}}
	}
	found := []pgstore.Finding{{Check: "relays", OK: true, Text: relaySummary(&st)}}
	if st.LiveRelays() == 0 {
		found[0] = pgstore.Finding{Check: "relays", Text: "no live relay: nothing is delivered", Fix: "outbox run"}
	}
	return append(found, warningFindings(c, &st)...)
}

func warningFindings(c *config, st *outbox.Status) (found []pgstore.Finding) {
	if st.LiveRelays() > 0 {
		for _, t := range st.Unhandled {
			text, fix := c.routeFor(t.Topic)
			found = append(found, pgstore.Finding{Check: "topics",
				Text: fmt.Sprintf("%q has ready messages and no live relay handles it%s", t.Topic, text), Fix: fix})
		}
	}
	for _, s := range st.Stranded {
		found = append(found, pgstore.Finding{Check: "bound", Text: strandedText(&s), Fix: s.Release()})
	}
	for _, d := range st.MixedSettings() {
		found = append(found, pgstore.Finding{Check: "settings", Text: mixedText(d), Fix: "outbox relays"})
	}
	for _, w := range aboutRelays(st) {
		found = append(found, pgstore.Finding{Check: "relay", Text: w.Text, Fix: w.Next})
	}
	return found
}

// routeFor is what has to be done for a topic that no live relay delivers, and why.
func (c *config) routeFor(topic string) (why, fix string) {
	var names []string
	for _, d := range c.targets() {
		names = append(names, d.name)
	}
	for _, r := range c.allRoutes() {
		if slices.ContainsFunc(r.topics, func(pattern string) bool { return outbox.MatchTopic(pattern, topic) }) {
			return "; one with this configuration does", "outbox run"
		}
	}
	if len(names) == 0 {
		return "", "outbox relays"
	}
	fix = fmt.Sprintf("add to the routes, and restart the relays: - {topics: [%q], to: %s}", topic, names[0])
	if len(names) > 1 {
		fix += "  # or " + strings.Join(names[1:], ", ")
	}
	return "", fix
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
		return pgstore.Finding{Check: "destination " + name, Text: err.Error(), Fix: destinationFix(err)}
	}
	return pgstore.Finding{Check: "destination " + name, OK: true, Text: "works"}
}

// destinationFix is the command of an error that comes with one; else the configuration shows where the destination should be.
func destinationFix(err error) string {
	var repairable interface{ Repair() string }
	if errors.As(err, &repairable) && repairable.Repair() != "" {
		return repairable.Repair()
	}
	return "outbox config"
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
		j := findingJSON(f)
		j.Fix = a.next(f.Fix)
		list = append(list, j)
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

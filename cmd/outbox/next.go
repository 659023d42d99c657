package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox/internal/shellword"
)

// repeated are the flags of a call that its successors need as well: which outbox is meant, and for what looks at a relay's
// configuration, all of it. What came from the environment is there again.
type repeated struct {
	database, relay []string
	sqlite          bool
	aimed           bool // the configuration says where messages go
}

// insteadOfPostgres are commands for those that work with PostgreSQL only: with a SQLite file they lead on as well.
var insteadOfPostgres = map[string]string{"outbox check": "outbox relays"}

// remember notes the flags of a call. A secret is not shown; whoever typed it has to type it again.
func (r *repeated) remember(cmd *cobra.Command) {
	*r = repeated{}
	if file := cmd.Flags().Lookup("config"); file != nil && file.Changed {
		r.database = append(r.database, "--config", shellword.Quote(file.Value.String()))
		r.relay = slices.Clone(r.database)
	}
	for _, s := range settings() {
		f := cmd.Flags().Lookup(s.flag())
		if f == nil || !f.Changed || f.Annotations[settingFlag] == nil {
			continue
		}
		text := f.Value.String()
		if s.secret && mask(text) != text {
			continue
		}
		words := []string{"--" + s.flag(), shellword.Quote(text)}
		if s.boolean {
			words = []string{"--" + s.flag() + "=" + shellword.Quote(text)}
		}
		r.relay = append(r.relay, words...)
		if s.scope == scopeDatabase {
			r.database = append(r.database, words...)
		}
	}
}

var (
	// aboutRelay are the commands that take a relay's whole configuration.
	aboutRelay = regexp.MustCompile(`^outbox (run|check|config)\b`)
	runsRelay  = regexp.MustCompile(`^outbox run\b`)
)

// next is a command of this program as it has to be typed after this call. What is none stays as it is.
func (a *app) next(command string) string {
	flags := a.repeated.database
	if other, ok := insteadOfPostgres[command]; ok && a.repeated.sqlite {
		command = other
	}
	switch {
	case !strings.HasPrefix(command, "outbox "):
		return command
	case runsRelay.MatchString(command) && !a.repeated.aimed:
		// It would be refused without a destination, and to name one here would send messages to where nobody wants them.
		return command + " --help"
	case aboutRelay.MatchString(command):
		flags = a.repeated.relay
	}
	return strings.Join(append([]string{command}, flags...), " ")
}

// arrow is before a command that a text ends with.
const arrow = "→ "

// complete completes the command that a text ends with.
func (a *app) complete(text string) string {
	if i := strings.LastIndex(text, arrow); i >= 0 {
		return text[:i] + arrow + a.next(text[i+len(arrow):])
	}
	return text
}

// completed completes the commands that cells of a table end with.
func (a *app) completed(rows [][]string) [][]string {
	for _, row := range rows {
		for i := range row {
			row[i] = a.complete(row[i])
		}
	}
	return rows
}

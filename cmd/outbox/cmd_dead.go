package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/shellword"
)

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Show the dead letters by topic and kind of error",
		Long: `Show the dead letters by topic and kind of error: how many, of those how many hold their key, when the first and the last of them died,
the id of the youngest, and the command for all of the topic and class: deliver them again, or discard what has expired.
In the errors N stands for numbers, UUID and HEX for ids, so that what is alike is one line.

It looks at the 100,000 dead letters that were published last.`,
		Example: `  outbox dead
  outbox redrive --topic orders.created --class timeout --dry-run`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			letters, err := store.DeadLetters(ctx)
			if err != nil {
				return err
			}
			return a.printDead(&letters)
		})
	})
	return cmd
}

type deadGroupJSON struct {
	Topic    string    `json:"topic"`
	Class    string    `json:"class"`
	Error    string    `json:"error"`
	Messages int64     `json:"messages"`
	Holding  int64     `json:"holding"`
	First    time.Time `json:"first_died_at"`
	Last     time.Time `json:"last_died_at"`
	Example  string    `json:"example_id"`
	Next     string    `json:"next"`
}

// releaseGroup is the command that delivers a group again, and all others of its topic and class. Those that have expired would only
// expire once more.
func releaseGroup(g outbox.DeadGroup) string {
	if g.Class == outbox.ClassExpired {
		return "outbox discard --topic " + shellword.Quote(g.Topic) + " --class expired --reason 'expired'"
	}
	command := "outbox redrive --topic " + shellword.Quote(g.Topic)
	if g.Class != "" {
		command += " --class " + shellword.Quote(g.Class)
	}
	return command
}

func (a *app) printDead(letters *outbox.DeadLetters) error {
	groups := []deadGroupJSON{}
	rows := [][]string{{"MESSAGES", "HOLDING", "TOPIC", "CLASS", "ERROR", "FIRST", "LAST", "EXAMPLE"}}
	for _, g := range letters.Groups {
		groups = append(groups, deadGroupJSON{g.Topic, g.Class, g.Text, g.Messages, g.Holding, utc(g.First), utc(g.Last), g.Example.String(), a.next(releaseGroup(g))})
		rows = append(rows, []string{count(g.Messages), count(g.Holding), g.Topic, g.Class, shorten(g.Text, 80), when(g.First), when(g.Last), g.Example.String()},
			[]string{"", "", arrow + releaseGroup(g)})
	}
	switch {
	case a.json:
		return a.printJSON(struct {
			Messages depthJSON       `json:"messages"`
			Groups   []deadGroupJSON `json:"groups"`
		}{newDepth(letters.Messages), groups})
	case len(letters.Groups) == 0:
		a.tell("no message is dead")
		return nil
	}
	a.printf("%s dead\n", depth(letters.Messages))
	return a.printTable(rows)
}

package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) partitionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partitions",
		Short: "Show the partitions of the archive",
		Long: `Show the partitions of the archive, the oldest first. Relays make them ahead and drop them when all of their messages have been kept
for keep_delivered. Dropping or detaching one by hand does no harm. archive_default takes what has no other partition.
MESSAGES is the database's own running count, unknown until it has one. In a SQLite file the archive is one table, and there are none.`,
		Example: "  outbox partitions --json | jq '[.partitions[].bytes] | add'",
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			list, err := store.Partitions(ctx)
			if errors.Is(err, errors.ErrUnsupported) {
				return &failure{exitUsage, err}
			}
			if err != nil {
				return err
			}
			return a.printPartitions(list)
		})
	})
	return cmd
}

type partitionJSON struct {
	Name     string     `json:"name"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	Messages depthJSON  `json:"messages"`
	Bytes    int64      `json:"bytes"`
}

func (a *app) printPartitions(list []outbox.Partition) error {
	js := []partitionJSON{}
	rows := [][]string{{"NAME", "FROM", "TO", "MESSAGES", "BYTES"}}
	for _, p := range list {
		js = append(js, partitionJSON{p.Name, timeOrNil(p.From), timeOrNil(p.To), newDepth(p.Messages), p.Bytes})
		rows = append(rows, []string{p.Name, when(p.From), when(p.To), partitionDepth(p.Messages), strconv.FormatInt(p.Bytes, 10)})
	}
	if a.json {
		return a.printJSON(map[string]any{"partitions": js})
	}
	return a.printTable(rows)
}

// partitionDepth is how many messages there are, as far as anybody knows.
func partitionDepth(d outbox.Depth) string {
	if d.AtLeast && d.Messages == 0 {
		return "unknown"
	}
	return depth(d)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = utc(t)
	return &t
}

// when writes a time for people; nothing for none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime + "Z")
}

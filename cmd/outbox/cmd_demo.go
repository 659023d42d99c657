package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/demo"
	"github.com/outboxrelay/outbox/internal/shellword"
)

// demoFlags are the flags of the demo. It takes nothing from environment or file: a database of those is one to keep.
type demoFlags struct {
	orders             int
	file, database, to string
}

func (a *app) demoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a relay that is killed and loses nothing",
		Long: `Show what an outbox is for, in a few seconds: an application commits orders, each with its message in the same
transaction, and rolls some back after the message was inserted; a relay is killed (SIGKILL) while it holds messages;
another one goes on. Then the stream is read back and compared with what was committed.

Database and NATS are private ones, gone at the end, and nothing has to be installed: the database is a PostgreSQL server
where PostgreSQL's server programs are found, and a SQLite file elsewhere, or with --database sqlite:. With other URLs
existing ones are used: the demo makes a schema and a stream of its own there, and removes them.

The lines of --file are those of outbox publish --file. Of each, topic, key, headers, content type and payload are
taken, and every line is a transaction.

Exit codes: 0 nothing lost, invented or out of order, 1 otherwise, or the demo could not be shown, 2 usage.`,
		Example: `  outbox demo

  # Messages of your own, and the result for a script:
  outbox demo --file events.jsonl --json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&f.orders, "orders", 2000, fmt.Sprintf("orders to commit, %d to %d", fewestOrders, mostOrders))
	flags.StringVar(&f.file, "file", "", "JSON lines to commit instead; - is standard input")
	flags.StringVar(&f.database, "database", "", "URL of an existing PostgreSQL database, or sqlite: for a private SQLite file (default: a private server, or such a file)")
	flags.StringVar(&f.to, "to", "", "URL of an existing NATS server with JetStream (default: a private one)")
	cmd.MarkFlagsMutuallyExclusive("orders", "file")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.config()
		if err != nil {
			return &failure{exitUsage, err}
		}
		cfg.Env, cfg.Progress = a.env, a.stderr
		return a.demo(cmd.Context(), cfg)
	})
	return cmd
}

const (
	fewestOrders = 10
	mostOrders   = 1_000_000
)

func (f *demoFlags) config() (cfg demo.Config, err error) {
	cfg = demo.Config{Database: f.database, To: f.to, Count: f.orders, Message: demo.Order}
	if scheme, _, _ := strings.Cut(f.to, ":"); f.to != "" && scheme != "nats" && scheme != "tls" {
		return cfg, errors.New("--to: the demo needs a NATS server, such as nats://localhost:4222")
	}
	if strings.HasPrefix(f.database, demo.PrivateSQLite) && f.database != demo.PrivateSQLite {
		return cfg, errors.New("--database: the demo makes a SQLite file of its own; say sqlite: without a path")
	}
	if f.file != "" {
		messages, err := readLines(f.file)
		if err != nil {
			return cfg, err
		}
		cfg.Count, cfg.Message = len(messages), func(i int) outbox.Message { return messages[i] }
	}
	if cfg.Count < fewestOrders || cfg.Count > mostOrders {
		what := "--orders " + strconv.Itoa(cfg.Count)
		if f.file != "" {
			what = fmt.Sprintf("--file %s: its %d messages", shellword.Quote(f.file), cfg.Count)
		}
		return cfg, fmt.Errorf("%s: must be %d to %d", what, fewestOrders, mostOrders)
	}
	cfg.Program, err = os.Executable()
	return cfg, err
}

func (a *app) demo(ctx context.Context, cfg demo.Config) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := demo.Run(ctx, cfg)
	if err != nil && ctx.Err() != nil {
		return failf(exitFailed, "interrupted; what was started is ended")
	}
	if err != nil {
		return err
	}
	return a.showDemo(&result)
}

func (a *app) showDemo(result *demo.Result) error {
	if a.json {
		if err := a.printJSON(result.Summary()); err != nil {
			return err
		}
	} else {
		a.printf("\n%s", result.Report())
	}
	if !result.OK() {
		return failf(exitFailed, "lost %d, phantom %d, out of order %d", result.Lost, result.Phantom, result.OrderViolations)
	}
	return nil
}

// readLines reads all messages of a file; times, ids and dedup keys in them are left out.
func readLines(path string) (messages []outbox.Message, err error) {
	if path == "-" {
		path = os.Stdin.Name()
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	for number, last := 1, false; !last; number++ {
		text, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("--file: %s:%d: %w", path, number, err)
		}
		last = err != nil
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		m, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("--file: %s:%d: %w", path, number, err)
		}
		messages = append(messages, outbox.Message{Topic: m.Topic, Key: m.Key, Headers: m.Headers, ContentType: m.ContentType, Payload: m.Payload})
	}
	return messages, nil
}

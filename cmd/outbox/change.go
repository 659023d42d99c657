package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/shellword"
)

// changeFlags are what the commands have in common that change messages.
type changeFlags struct {
	ids, states             []string
	topic, key, class, text string
	older, newer            string
	limit, goOn             int64
	all, dryRun, yes        bool
	reason, actor           string
	rate                    int
	wait, destination       string
	bound                   string // the destination that the messages are bound to
	byRoute                 bool
	holding                 bool
	verb, done              string                                   // "redrive", "redriven"
	before                  func(context.Context, outboxStore) error // the first thing; may be nil
	change                  func(outboxStore, context.Context, outbox.Change) (outbox.ChangeReport, error)
}

const filterHelp = `A message is meant if it matches all filters that are given; --all means every one. Ages count from a dead message's death,
from the end of one that has ended, and from the publishing of any other. Without --yes the command counts first and asks; where nobody can be asked it refuses.

The change is made in batches, each a transaction of its own, and recorded: who, why, which messages, how many. When it is
stopped, by Ctrl-C or a lost connection, what was changed stays changed, and --continue with the operation's id goes on.

Exit codes: 0 done, 1 failed, 2 usage, 3 nothing matched, 5 stopped before the end.`

func (a *app) changeCommand(cmd *cobra.Command, f *changeFlags) *cobra.Command {
	cmd.Args = cobra.NoArgs
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ids, "id", nil, "messages with these `ids`")
	flags.StringVar(&f.topic, "topic", "", "messages of this topic or `pattern`, such as orders.>")
	flags.StringVar(&f.key, "key", "", "messages of this `key`")
	flags.StringVar(&f.class, "class", "", "messages whose last error is of this `class`, such as timeout")
	flags.StringVar(&f.text, "error", "", "messages whose last error has this `text` in it")
	flags.StringVar(&f.older, "older-than", "", "messages that are older than this `duration`, such as 90m or 2d")
	flags.StringVar(&f.newer, "newer-than", "", "messages that are newer than this `duration`")
	flags.BoolVar(&f.all, "all", false, "all messages")
	flags.Int64Var(&f.limit, "limit", 0, "at most this `many` messages, the oldest first (default: no limit)")
	flags.IntVar(&f.rate, "rate", 0, "at most this `many` messages a second (default: no limit)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count, up to 100,000")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.StringVar(&f.reason, "reason", "", "`why`; recorded")
	flags.StringVar(&f.actor, "actor", "", "`who`; recorded (default: user@host)")
	flags.Int64Var(&f.goOn, "continue", 0, "go on with the `operation` of this id")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := f.parse()
		if err != nil {
			return &failure{exitUsage, err}
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			return a.runChange(ctx, store, f, c)
		})
	})
	return cmd
}

// parse makes the change; what is wrong is told by the flag's name.
func (f *changeFlags) parse() (c outbox.Change, err error) {
	c = outbox.Change{DryRun: f.dryRun, Rate: f.rate, Continue: f.goOn, Actor: f.actor, Reason: f.reason, Holding: f.holding,
		Destination: f.destination, ByRoute: f.byRoute,
		Filter: outbox.Filter{Topic: f.topic, Key: f.key, Class: f.class, Text: f.text, BoundTo: f.bound, All: f.all, Limit: f.limit}}
	if c.Actor == "" {
		c.Actor = whoami()
	}
	for _, text := range f.states {
		c.States = append(c.States, outbox.State(text))
	}
	var problems []error
	for _, text := range f.ids {
		id, err := outbox.ParseID(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("--id %q: is no UUID", text))
		}
		c.IDs = append(c.IDs, id)
	}
	for flag, d := range map[string]struct {
		text string
		to   *time.Duration
	}{"--older-than": {f.older, &c.OlderThan}, "--newer-than": {f.newer, &c.NewerThan}, "--wait": {f.wait, &c.Wait}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = outbox.ParseDuration(d.text); err != nil {
			problems = append(problems, fmt.Errorf("%s %q: %w", flag, d.text, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return c, err
	}
	given := f.filters()
	switch {
	case f.isEmpty() && !f.all && f.goOn == 0:
		return c, errors.New("which messages? give a filter, such as --id, --topic or --key, or --all")
	case f.all && f.goOn == 0 && len(given) > 0:
		return c, fmt.Errorf("--all means every message and excludes %s: leave out one or the other", strings.Join(given, " "))
	case f.goOn > 0 && len(f.beside()) > 0:
		return c, fmt.Errorf("--continue %d goes on with the messages that the operation means: leave out %s", f.goOn, strings.Join(f.beside(), " "))
	}
	return c, c.Check(f.verb)
}

// filters are those that are given, as they can be typed.
func (f *changeFlags) filters() (given []string) {
	for _, filter := range []struct{ flag, value string }{
		{"id", strings.Join(f.ids, ",")}, {"state", strings.Join(f.states, ",")}, {"topic", f.topic}, {"key", f.key}, {"class", f.class},
		{"error", f.text}, {"destination", f.bound}, {"older-than", f.older}, {"newer-than", f.newer},
	} {
		if filter.value != "" {
			given = append(given, "--"+filter.flag+" "+shellword.Quote(filter.value))
		}
	}
	return given
}

// beside are the flags that say which messages, and that an operation which goes on has already.
func (f *changeFlags) beside() []string {
	given := f.filters()
	if f.all {
		given = append(given, "--all")
	}
	if f.limit != 0 {
		given = append(given, fmt.Sprintf("--limit %d", f.limit))
	}
	if f.dryRun {
		given = append(given, "--dry-run")
	}
	return given
}

func (f *changeFlags) isEmpty() bool {
	return len(f.ids)+len(f.states) == 0 && f.topic+f.key+f.class+f.text+f.bound+f.older+f.newer == ""
}

// whoami is who runs the program, as far as the system tells.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

func (a *app) runChange(ctx context.Context, store outboxStore, f *changeFlags, c outbox.Change) error {
	if f.before != nil {
		if err := f.before(ctx, store); err != nil {
			return err
		}
	}
	if !c.DryRun && !f.yes && c.Continue == 0 {
		if err := a.askFirst(ctx, store, f, c); err != nil {
			return err
		}
	}
	// Not before the answer: nothing is to be finished yet, and reading it would not end.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c.Progress = a.tellProgress(f)
	report, err := f.change(store, ctx, c)
	if err != nil {
		return a.stopped(ctx, f, report, err)
	}
	if err := a.printReport(f, c, report); err != nil {
		return err
	}
	if report.Matched == 0 {
		return silently(exitNothing)
	}
	return a.leftAlone(f, c, report)
}

// leftAlone tells what was not changed although it matches.
func (a *app) leftAlone(f *changeFlags, c outbox.Change, r outbox.ChangeReport) error {
	switch {
	case f.verb == "purge" && r.Held > 0: // as the rules say; a job that runs every night has not failed
		a.tell("%s dead and holding their key: left alone; add --holding, or see: %s", messages(r.Held), a.next("outbox keys"))
	case f.verb == "replay" && r.NoPayload > 0:
		return fmt.Errorf("%s cannot be replayed: kept without payload (archive.payload: false)", messages(r.NoPayload))
	case f.verb == "redrive" && r.Held > 0 && !c.DryRun:
		return fmt.Errorf("%s bound to a destination where no live relay would take them, and left alone: start one that has it, or add --destination and --by-route; see: %s",
			messages(r.Held), a.next("outbox list --state dead"))
	case f.verb == "retry" && r.Held > 0 && !c.DryRun:
		return fmt.Errorf("%s held by live relays and left alone, on their way to where they are bound; see: %s", messages(r.Held), a.next("outbox relays"))
	case f.verb == "replay" && r.Held > 0:
		a.tell("%s under way already or dead: left alone", messages(r.Held))
	case f.verb == "discard" && r.Held > 0 && !c.DryRun:
		return fmt.Errorf("%s held by live relays and left alone; add --wait 30s, or see: %s", messages(r.Held), a.next("outbox keys"))
	}
	return nil
}

// askFirst counts and asks. Nothing that matches is not asked about.
func (a *app) askFirst(ctx context.Context, store outboxStore, f *changeFlags, c outbox.Change) error {
	c.DryRun = true
	report, err := f.change(store, ctx, c)
	if err != nil {
		return err
	}
	if report.Matched == 0 {
		if err := a.printReport(f, c, report); err != nil {
			return err
		}
		return silently(exitNothing)
	}
	question := fmt.Sprintf("%s would be %s", matched(report), f.done)
	if !isTerminal(os.Stdin) {
		return failf(exitUsage, "%s; nobody can be asked, since the input is no terminal: add --yes", question)
	}
	fmt.Fprintf(a.stderr, "%s. Do it? [y/N] ", question)
	return confirmed(os.Stdin)
}

// confirmed reads the answer to a question.
func confirmed(in io.Reader) error {
	answer, err := bufio.NewReader(in).ReadString('\n')
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "": // nobody is there
		return failf(exitUsage, "no answer, and nothing was changed; add --yes")
	}
	return failf(exitFailed, "nothing was changed")
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// messages counts messages in words.
func messages(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return count(n) + " messages"
}

// matched is what a dry run found; it ends at some bound.
func matched(r outbox.ChangeReport) string {
	if r.More {
		return count(r.Matched) + "+ messages"
	}
	return messages(r.Matched)
}

// tellProgress says how to go on as soon as there is something to go on with, and now and then how far it is.
func (a *app) tellProgress(f *changeFlags) func(outbox.ChangeReport) {
	const interval = 2 * time.Second
	told, waiting := time.Time{}, false
	return func(r outbox.ChangeReport) {
		switch {
		case r.Waiting && !waiting:
			a.tell("%s held by live relays: waiting until they have failed or been delivered", messages(r.Held))
			waiting = true
		case r.More && told.IsZero():
			a.tell("operation %d; should this be stopped, go on by: %s", r.Operation, a.next(fmt.Sprintf("outbox %s --continue %d", f.verb, r.Operation)))
			told = time.Now()
		case r.More && time.Since(told) > interval:
			a.tell("%s %s so far", messages(r.Changed), f.done)
			told = time.Now()
		}
	}
}

// stopped tells what was done and how to go on.
func (a *app) stopped(ctx context.Context, f *changeFlags, r outbox.ChangeReport, err error) error {
	code := exitFailed
	if refused := refusals(err); len(refused) > 0 && refused[0].Field == "Continue" {
		return failf(exitNothing, "--continue %d: there is no operation %d of %s; those that can go on: %s", f.goOn, f.goOn, f.verb, a.next("outbox ops"))
	}
	if ctx.Err() != nil {
		code, err = exitAbandoned, errors.New("stopped")
	}
	if r.Operation == 0 {
		return &failure{code, err}
	}
	var text string
	if r.Matched > 0 { // else an earlier part is not known
		text = fmt.Sprintf(": %s %s", messages(r.Changed), f.done)
	}
	switch {
	case r.More:
		text += "; go on by: " + a.next(fmt.Sprintf("outbox %s --continue %d", f.verb, r.Operation))
	case r.Held > 0 && f.verb == "discard":
		text += fmt.Sprintf(", %s still held by live relays; go on by: %s", messages(r.Held), a.next(fmt.Sprintf("outbox %s --continue %d --wait 30s", f.verb, r.Operation)))
	}
	return &failure{code, fmt.Errorf("%w%s", err, text)}
}

// changeJSON is a change as JSON.
type changeJSON struct {
	Operation int64 `json:"operation,omitempty"`
	DryRun    bool  `json:"dry_run"`
	Matched   int64 `json:"matched"`
	AtLeast   bool  `json:"at_least,omitempty"` // matched: a dry run ended counting
	Changed   int64 `json:"changed"`
	Held      int64 `json:"held"`
	NoPayload int64 `json:"no_payload,omitempty"`
}

func (a *app) printReport(f *changeFlags, c outbox.Change, r outbox.ChangeReport) error {
	switch {
	case a.json:
		return a.printJSON(changeJSON{r.Operation, c.DryRun, r.Matched, c.DryRun && r.More, r.Changed, r.Held, r.NoPayload})
	case r.Matched == 0:
		a.tell("no message matches")
	case c.DryRun && r.Held > 0 && f.verb == "redrive":
		a.printf("would be %s: %s, but for %s bound to a destination where no live relay would take them\n", f.done, matched(r), count(r.Held))
	case c.DryRun && r.Held > 0 && (f.verb == "discard" || f.verb == "retry"):
		a.printf("would be %s: %s, of which %s held by live relays\n", f.done, matched(r), count(r.Held))
	case c.DryRun:
		a.printf("would be %s: %s\n", f.done, matched(r))
	default:
		a.printf("%s: %s (operation %d)\n", f.done, messages(r.Changed), r.Operation)
	}
	return nil
}

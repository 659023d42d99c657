package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/connecting"
)

// Exit codes; scripts rely on them.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2 // usage or configuration
	exitNothing   = 3 // nothing matched
	exitUnhealthy = 4 // unhealthy, or a check found something
	exitAbandoned = 5 // stopped with work abandoned
)

// app is one call of the program: what the commands share.
type app struct {
	env            []string
	stdout, stderr io.Writer
	json           bool
	repeated       repeated
}

// run is the program. Data goes to stdout, talk to stderr; the result is the exit code.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	a := &app{env: env, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(cmd, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "outbox",
		Short: "Deliver messages from an outbox in PostgreSQL, and look after it",
		Long: `outbox delivers messages that were published in transactions of a PostgreSQL database to their destinations, each
at least once, in order of their keys.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 nothing matched, 4 unhealthy or a finding, 5 stopped with
work abandoned. Settings come from flags, the environment (OUTBOX_…), the file of --config, and defaults, in this order.`,
		Example: `  # Everything to standard output, as JSON lines, with the schema made when it is missing:
  outbox run --database-url postgres://localhost/shop --to stdout:`,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "write data as JSON")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.runCommand(), a.initCommand(), a.migrateCommand(), a.publishCommand(), a.statusCommand(),
		a.keysCommand(), a.whyCommand(), a.retryCommand(), a.redriveCommand("redrive"), a.redriveCommand("requeue"),
		a.replayCommand(), a.discardCommand(), a.purgeCommand("purge"), a.purgeCommand("cleanup"), a.pauseCommand(), a.resumeCommand(),
		a.opsCommand(), a.listCommand(), a.showCommand(), a.deadCommand(), a.partitionsCommand(), a.relaysCommand(), a.walCommand(), a.configCommand(), a.checkCommand(), a.healthCommand(), a.waitCommand(), a.topCommand(),
		a.benchCommand(), a.demoCommand(), a.versionCommand())
	return root
}

// failure is an error of a command that ran, with its exit code. All other errors are mistakes in the arguments.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failf(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// action makes a command's function: what it returns without a code is a failure, or wrong usage if the library refuses a value.
func action(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		var f *failure
		if err == nil || errors.As(err, &f) {
			return err
		}
		if len(refusals(err)) > 0 {
			return &failure{exitUsage, err}
		}
		return &failure{exitFailed, err}
	}
}

func (a *app) report(cmd *cobra.Command, err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case !errors.As(err, &f):
		fmt.Fprintf(a.stderr, "%s: %v\ntry: %s --help\n", cmd.CommandPath(), err, cmd.CommandPath())
		return exitUsage
	}
	if text := told(connecting.Explain(err), flagNames(cmd)); text != "" {
		a.tell("%s: %s", cmd.CommandPath(), text)
	}
	if errors.Is(err, outbox.ErrSchemaMissing) {
		a.tell("%s%s", arrow, a.next("outbox migrate up"))
	}
	return f.code
}

// silently ends with a code when the output has said everything.
func silently(code int) error { return &failure{code, errors.New("")} }

// printJSON writes one document on one line, with these payloads in it.
func (a *app) printJSON(v any, payloads ...[]byte) error {
	text, err := encode(v, payloads...)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

func (a *app) printf(format string, args ...any) {
	fmt.Fprint(a.stdout, harmless(fmt.Sprintf(format, args...)))
}

func (a *app) tell(format string, args ...any) {
	fmt.Fprint(a.stderr, harmless(fmt.Sprintf(format+"\n", args...)))
}

// harmless replaces what would steer a terminal: errors and reasons are whatever somebody has written.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}

// oneLine is harmless for a part of a line.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(harmless(text))
}

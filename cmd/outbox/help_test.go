package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commands are all commands that a user sees.
func commands() (all []*cobra.Command) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				walk(sub)
			}
		}
	}
	walk(a.rootCommand())
	return all
}

// TestHelp: each command's help is as it was, and has a worked example.
func TestHelp(t *testing.T) {
	for _, c := range commands() {
		args := strings.Fields(c.CommandPath())[1:]
		r := call(t, nil, append(args, "--help")...).want(t, exitDone)
		name := strings.Join(args, "_")
		if name == "" {
			name = "outbox"
		}
		golden(t, "help/"+name, r.out)
		if !strings.Contains(c.Example, "outbox") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if r.err != "" {
			t.Errorf("%s: stderr: %s", c.CommandPath(), r.err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for args, says := range map[string]string{
		"nonsense": "unknown command", "status --nonsense": "unknown flag", "status --databse-url x": "did you mean --database-url?", "publish --topc a": "did you mean --topic?",
		"publish -topic a": "did you mean --topic?", "publish --topic": "flag needs an argument: --topic\n", "keys --limit many": `--limit "many": must be a whole number`, "redrive --all=maybe": `--all "maybe": must be true or false`,
		"run --to stdout --database-url x": "did you mean stdout:?", "run --to nast://h --database-url x": "did you mean nats?", "migrate vaildate": "did you mean validate?", "status more": "unknown command", "migrate": "which?",
		"migrate sideways": "unknown command", "migrate down": "--target: must say", "publish": "--topic", "publish --file x --topic a": "exclude",
		"publish --file x --batch 0": "--batch 0", "health --any --pid 3": "none of the others can be", "wait --timeout 5": "unit",
		"run": "where to?", "status": "which database?", "migrate down --target x": `--target "x": must be a whole number`, "run --to stdout:": "which database?",
		"demo --orders 9": "--orders 9: must be 10 to", "demo --to kafka://x": "needs a NATS server", "demo --orders 20 --file x": "none of the others can be",
		"demo --file /nowhere": "no such file", "bench": "which database?", "bench --rows 10": "--rows 10: must be 100 to", "bench --payload 65KiB": "8 to 64KiB",
		"bench --payload x": "number of bytes", "bench --duration 5": "unit", "bench --duration 11m": "1s to 10m", "bench --keys -1": "0 to 1000000",
		"bench --rate 0": "1 to 10000", "bench --rows 10000000 --payload 64KiB": "at most 16GiB",
	} {
		r := call(t, nil, strings.Fields(args)...).want(t, exitUsage)
		wantIn(t, r.err, says)
		if r.out != "" {
			t.Errorf("%s: stdout: %s", args, r.out)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := call(t, nil, "completion", shell).want(t, exitDone)
		wantIn(t, r.out, "outbox")
	}
	wantIn(t, call(t, nil, "__complete", "migrate", "").want(t, exitDone).out, "validate")
}

func TestVersion(t *testing.T) {
	wantIn(t, call(t, nil, "version").want(t, exitDone).out, "outbox ", "go1.")
	v := decode[map[string]string](t, call(t, nil, "version", "--json").want(t, exitDone))
	if v["version"] == "" || v["go"] == "" {
		t.Error(v)
	}
}

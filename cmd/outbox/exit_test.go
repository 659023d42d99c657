package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// complete are the arguments that each command needs to be complete, beside those that say which outbox is meant. Commands that end by
// themselves only, or touch no outbox, are not there.
var complete = map[string]string{
	"publish": "--topic a", "status": "", "keys": "", "why": "--key k", "retry": "--all --yes", "redrive": "--all --yes",
	"replay": "--destination d --topic a --yes", "discard": "--all --reason x --yes", "purge": "--state dead --yes", "pause": "--topic a", "resume": "--topic a",
	"ops": "", "list": "", "show": "019545c8-4c35-7000-8000-000000000001", "dead": "", "partitions": "", "relays": "", "wal": "", "check": "",
	"health": "--any", "wait": "--timeout 2s", "top": "--once", "migrate up": "", "migrate down": "--target 0 --yes", "migrate list": "", "migrate validate": "",
	"bench": "", "run": "--once --to stdout:",
}

// needNoOutbox are the other commands.
var needNoOutbox = []string{"outbox", "init", "migrate", "migrate print", "config", "demo", "version"}

// TestExitCodesOfFailures: every command ends alike with the same fault, so that a script need not know them.
func TestExitCodesOfFailures(t *testing.T) {
	empty := "--database-url=" + postgres.Database(t)
	const unreachable = "--database-url=postgres://me@127.0.0.1:1/db?sslmode=disable&connect_timeout=2"
	eachCommand(t, func(path string) {
		args := func(more ...string) []string { return append(strings.Fields(path+" "+complete[path]), more...) }
		for name, mistake := range map[string][]string{
			"an unknown flag": {"--nonsense"}, "no database": nil, "a URL that is none": {"--database-url=nonsense://x"}, "a wrong setting": {"--database-schema=No"},
			"a file that is not there": {"--config=/nowhere/outbox.yaml"}, "a secret that is not there": {"--database-url-file=/nowhere/url"},
		} {
			r := call(t, nil, args(mistake...)...)
			if r.code != exitUsage || r.err == "" || r.out != "" {
				t.Errorf("%s with %s: exit code %d: %s%s", path, name, r.code, r.out, r.err)
			}
		}
		// A relay waits for its database, and makes the schema.
		if path == "run" {
			return
		}
		want := exitFailed
		if path == "check" {
			want = exitUnhealthy
		}
		r := call(t, nil, args(unreachable)...)
		if r.code != want || strings.Count(r.out+r.err, "connection refused") != 1 || strings.Count(strings.TrimSpace(r.err), "\n") != 0 {
			t.Errorf("%s without a server: exit code %d, want %d: %s%s", path, r.code, want, r.out, r.err)
		}
		switch path {
		case "migrate up", "migrate list", "migrate down", "bench":
			return
		case "migrate validate":
			want = exitUnhealthy
		}
		if r := call(t, nil, args(empty)...); r.code != want || !strings.Contains(r.out+r.err, "outbox migrate up") {
			t.Errorf("%s without a schema: exit code %d, want %d: %s%s", path, r.code, want, r.out, r.err)
		}
	})
}

// eachCommand calls do with every command that works on an outbox. One that is new has to be told of here.
func eachCommand(t *testing.T, do func(path string)) {
	t.Helper()
	for _, c := range commands() {
		path := strings.TrimPrefix(c.CommandPath(), "outbox ")
		if _, ok := complete[path]; ok {
			do(path)
		} else if !slices.Contains(needNoOutbox, path) {
			t.Errorf("nothing is known of the exit codes of %q", path)
		}
	}
}

// TestExitCodes: what the same words mean is the same number.
func TestExitCodes(t *testing.T) { inBoth(t, exitCodes) }

func exitCodes(t *testing.T, o *testOutbox) {
	none := filepath.Join(t.TempDir(), "none")
	empty := write(t, filepath.Join(t.TempDir(), "empty"), "")
	wrong := write(t, filepath.Join(t.TempDir(), "wrong"), `{"topic":"a..b"}`)
	const id, missing = "019545c8-4c35-7000-8000-000000000001", "019545c8-4c35-7000-8000-00000000000f"
	o.ready(id, "a", []byte{})
	for args, code := range map[string]int{
		"status": exitDone, "relays": exitDone, "keys": exitDone, "dead": exitDone, "ops": exitDone, "list": exitDone, "show " + id: exitDone, "why " + id: exitDone,
		"list --json": exitDone, "top --once": exitDone, "discard --id " + id + " --reason x --dry-run": exitDone,

		"list --topic b": exitNothing, "list --topic b --json": exitNothing, "show " + missing: exitNothing, "show --json " + missing: exitNothing,
		"why " + missing: exitNothing, "why --key k --json": exitNothing, "redrive --all --yes": exitNothing, "redrive --all --dry-run --json": exitNothing,
		"redrive --continue 99": exitNothing, "discard --continue 99": exitNothing, "purge --continue 99": exitNothing, "resume --topic a": exitNothing,
		"resume --topic a --json": exitNothing, "publish --file " + empty: exitNothing, "publish --json --file " + empty: exitNothing,

		"publish --topic a..b": exitUsage, "publish --file " + none: exitUsage, "publish --file " + wrong: exitUsage, "publish --topic a --payload-file " + none: exitUsage,
		"redrive --all --topic a": exitUsage, "redrive --topic a..b": exitUsage, "list --after x": exitUsage, "discard --all --reason x": exitUsage,
		"show x": exitUsage, "why x": exitUsage, "migrate down --target 7 --yes": exitUsage, "migrate down --target 0": exitUsage,
		"list --state x": exitUsage, "wait --timeout 0s": exitUsage, "publish --topic a --max-payload 3 --payload 1234": exitUsage,

		"wait --timeout 100ms": exitFailed, "migrate down --target 0 --yes": exitFailed,
		"health --any": exitUnhealthy,
	} {
		if r := call(t, nil, append(strings.Fields(args), o.flag)...); r.code != code {
			t.Errorf("%s: exit code %d, want %d: %s%s", args, r.code, code, r.out, r.err)
		}
	}
	if o.lite {
		for _, command := range []string{"bench", "check", "migrate print", "partitions", "wal"} {
			call(t, nil, append(strings.Fields(command), o.flag)...).want(t, exitUsage)
		}
	} else {
		call(t, nil, "wal", o.flag).want(t, exitNothing)
		call(t, nil, "check", "--to=stdout:", o.flag).want(t, exitUnhealthy)
	}
}

// TestRunOnceWithoutDestination: nothing failed, and nothing was delivered: whoever runs it by cron has to hear of it.
func TestRunOnceWithoutDestination(t *testing.T) { inBoth(t, runOnceWithoutDestination) }

func runOnceWithoutDestination(t *testing.T, o *testOutbox) {
	once := []string{"run", "--once", "--to=nats://127.0.0.1:1", "--stream=ORDERS", o.flag}
	call(t, nil, once...).want(t, exitDone) // there is nothing to deliver
	call(t, nil, "publish", "--topic=a", o.flag).want(t, exitDone)
	r := call(t, nil, append(once, "--json")...).want(t, exitUnhealthy)
	wantIn(t, r.out, `"delivered":0`)
	wantIn(t, r.err, "messages remain (1 ready, ", "destination default is unavailable: ")
	wantIn(t, call(t, nil, "run", "--once", "--to=stdout:", o.flag).want(t, exitDone).err, "delivered 1")
}

package main

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestTold: refusals are in the words of flags, whatever is around them; other errors stay as they are.
func TestTold(t *testing.T) {
	a := &app{}
	flags := flagNames(a.redriveCommand("redrive"))
	refused := (&outbox.Filter{OlderThan: -time.Second})
	err := (&outbox.Change{Filter: *refused}).Check("redrive")
	if got := told(fmt.Errorf("look: %w", errors.Join(errors.New("other"), err)), flags); got != "look: other\n--older-than \"-1s\": must not be negative" {
		t.Errorf("told %q", got)
	}
	if got := told(errors.New("All is lost"), flags); got != "All is lost" {
		t.Errorf("told %q", got)
	}
	unknown := &outbox.FieldError{Field: "Store", Value: "nil", Bound: "a relay needs a store"}
	if got := told(unknown, flags); got != unknown.Error() {
		t.Errorf("told %q", got)
	}
	message := flagNames(a.publishCommand())
	header := &outbox.FieldError{Field: "Headers[x]", Value: "a", Bound: "give Delay or DeliverAt, Unlimited"}
	if got := told(header, message); got != `--header x "a": give --delay or --deliver-at, unlimited` {
		t.Errorf("told %q", got)
	}
}

// goName is a field of the library in a text that is told.
var goName = regexp.MustCompile(`\b(?:Config\.|Headers|IDs|States|Topics?|Key|Class|Text|OlderThan|NewerThan|All|Limit|Rate|Wait|Reason|Actor|Holding|Destination|Continue|` +
	`Delay|DeliverAt|TTL|ExpiresAt|BrokerTTL|MaxAttempts|DedupKey|ContentType|Payload|KeepForever|Unlimited|WithCausation|DisableJitter|Base)\b`)

// TestNoGoNames: no mistake on the command line is told in terms of Go fields.
func TestNoGoNames(t *testing.T) {
	const url = " --database-url=postgres://me@127.0.0.1:1/db"
	for _, args := range []string{
		"redrive --all --key=k", "redrive --topic=a..b", "redrive --key=\xff", "redrive --limit=-1 --all", "redrive --all --rate=-1", "retry --class=\xff", "retry --error=\xff",
		"discard --all --reason=\xff --yes", "discard --all --reason=x --actor=\xff", "discard --state=delivered --reason=x", "discard --all --reason=x --wait=-1s",
		"discard --key=k --reason=x --older-than=-1s", "discard --key=k --reason=x --newer-than=-1s", "redrive --continue=-1", "redrive --continue=3 --all",
		"purge --state=ready", "purge --state=dead --all", "purge --continue=3 --holding", "replay --destination=No --topic=a", "replay --destination=x --state=dead",
		"replay --destination=x --class=y", "replay --continue=3 --destination=x", "list --limit=-1", "list --state=x", "list --topic=a..b", "pause --topic=a..b",
		"pause --destination=No", "pause --topic=a --reason=\xff", "resume --destination=No", "why --key=\xff",
		"run --to=stdout: --lease=1ms", "run --to=stdout: --max-attempts=-1", "run --to=stdout: --retry-base=1us", "run --to=stdout: --retry-base=1h --retry-max=1s",
		"run --to=stdout: --retry-jitter=7", "run --to=stdout: --slots=-1", "run --to=stdout: --keep-delivered=1s", "run --to=stdout: --archive-granularity=x",
		"run --to=stdout: --partition-interval=1ms", "run --to=stdout: --max-payload=99GiB", "run --to=stdout: --ttl=1ns",
		"run --to=nats://h --create=true", "run --to=amqp://h --routing-key={x}",
	} {
		r := call(t, nil, strings.Fields(args+url)...).want(t, exitUsage)
		if found := goName.FindString(strings.ReplaceAll(r.err, "Unknown", "")); found != "" {
			t.Errorf("%q is told with %s: %s", args, found, r.err)
		}
		if r.err == "" {
			t.Errorf("%q: nothing is told", args)
		}
	}
}

// TestLineNames: every field of a message that can be refused has a key.
func TestLineNames(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[outbox.Message]()) {
		if lineNames(f.Name) == "" {
			t.Errorf("lines have no key for %s", f.Name)
		}
		if name := flagNames((&app{}).publishCommand())(f.Name); name == "" {
			t.Errorf("publish has no flag for %s", f.Name)
		}
	}
}

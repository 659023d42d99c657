package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// relay inserts a live relay that delivers topics of a pattern to a destination.
func (o *testOutbox) relay(destination, pattern string) {
	o.t.Helper()
	lanes := fmt.Sprintf(`{"%s": {"take": "%s", "topics": [{"in": true, "pattern": "%s"}]}}`, destination, map[string]string{">": "", "billing.>": `^billing\\.`}[pattern], pattern)
	if o.lite {
		o.exec(`insert into outbox.relay (id, beat, lease_until, lease, host, pid, version, engine, settings, lanes, counters, started_at, seen_at)
			values ($1, 1, `+o.ago(-600)+`, 600000, 'h', 1, 'v', 'poll', '', $2, '{}', `+o.ago(0)+`, `+o.ago(0)+`)`, outbox.NewID().String(), lanes)
		return
	}
	o.exec(`insert into outbox.relay (id, beat, lease_until, lease, host, pid, version, engine, destinations)
		values ($1, 1, now() + interval '10 minutes', interval '10 minutes', 'h', 1, 'v', 'poll', $2)`, outbox.NewID().String(), lanes)
}

// TestBound: what a replay has bound to a destination that is gone is told, listed, discarded, and aimed anew.
func TestBound(t *testing.T) { inBoth(t, bound) }

func bound(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.archive("orders.created", "delivered", 3, 0)
	call(t, nil, "replay", "--destination=gone", "--all", "--yes", flag).want(t, exitDone)
	if out := call(t, nil, "status", flag).want(t, exitDone).out; strings.Contains(out, "gone") {
		t.Errorf("without a live relay nobody knows: %s", out)
	}
	o.relay("events", ">")
	wantIn(t, call(t, nil, "status", flag).want(t, exitDone).out,
		"3 wait for destination gone, which no live relay has  → outbox retry --destination gone --by-route", "3 ready", "retrying   0  scheduled 0")
	wantIn(t, call(t, nil, "status", "--json", flag).want(t, exitDone).out, `"stranded":[{"destination":"gone","messages":3}]`,
		`"next":"outbox retry --destination gone --by-route --database-url `)
	out := call(t, nil, "list", "--destination=gone", "--limit=1", flag).want(t, exitDone).out
	wantIn(t, out, "DESTINATION", "orders.created  k1   gone")
	wantIn(t, call(t, nil, "list", "--destination=events", flag).want(t, exitNothing).err, "no message matches")
	wantIn(t, call(t, nil, "list", "--destination=default", "--state=delivered", flag).want(t, exitDone).out, "delivered", "default")
	id := strings.Fields(strings.Split(out, "\n")[1])[1]
	wantIn(t, call(t, nil, "why", id, flag).want(t, exitDone).out, "which a replay has bound to destination gone",
		"it is bound to destination gone, which no live relay has  → outbox retry --id "+id+" --destination gone --by-route")
	for _, verb := range []string{"retry", "redrive"} {
		for _, how := range []string{"--yes", "--dry-run"} {
			wantIn(t, call(t, nil, verb, "--destination=gone", how, flag).want(t, exitUsage).err, "--destination gone", "theirs are: events", "--by-route")
		}
	}
	wantIn(t, call(t, nil, "discard", "--destination=gone", "--key=k3", "--reason=test", "--yes", flag).want(t, exitDone).out, "discarded: 1 message")
	wantIn(t, call(t, nil, "retry", "--destination=gone", "--by-route", "--dry-run", flag).want(t, exitDone).out, "would be made due: 2 messages")
	wantIn(t, call(t, nil, "retry", "--destination=gone", "--by-route", "--reason=gone for good", "--yes", flag).want(t, exitDone).out, "made due: 2 messages")
	call(t, nil, "retry", "--destination=gone", "--by-route", "--yes", flag).want(t, exitNothing)
	if out := call(t, nil, "status", flag).want(t, exitDone).out; strings.Contains(out, "gone") {
		t.Errorf("nothing is bound any more: %s", out)
	}
	wantIn(t, call(t, nil, "ops", flag).want(t, exitDone).out, "by_route=true destination=gone", "gone for good")
	wantIn(t, call(t, nil, "why", id, flag).want(t, exitDone).out, "nothing keeps it")
}

// TestBoundDead: a redrive leaves dead messages alone that nobody would take where they are bound to, and says so.
func TestBoundDead(t *testing.T) { inBoth(t, boundDead) }

func boundDead(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.dead("billing.paid", 3)
	o.exec("update outbox.dead set destination = 'gone' where key = 'k1'")
	o.relay("events", ">")
	wantIn(t, call(t, nil, "redrive", "--topic=billing.paid", "--dry-run", flag).want(t, exitDone).out,
		"would be redriven: 3 messages, but for 1 bound to a destination where no live relay would take them")
	r := call(t, nil, "redrive", "--topic=billing.paid", "--yes", flag).want(t, exitFailed)
	wantIn(t, r.out, "redriven: 2 messages")
	wantIn(t, r.err, "1 message bound to a destination where no live relay would take them, and left alone", "--by-route", "outbox list --state dead")
	wantIn(t, call(t, nil, "ops", flag).want(t, exitDone).out, "2 (1 left alone)")
	r = call(t, nil, "why", "--key=k1", flag).want(t, exitDone)
	wantIn(t, r.out, `no message of key "k1" is ready or waiting; dead, without holding it: 1  → outbox redrive --key k1`)
	wantIn(t, call(t, nil, "why", "--key=k1", "--json", flag).want(t, exitDone).out, `"message":null`, `"dead":{"messages":1}`)
	wantIn(t, call(t, nil, "redrive", "--destination=gone", "--by-route", "--yes", flag).want(t, exitDone).out, "redriven: 1 message")
	if n := o.count("select count(*) from outbox.waiting where destination is null"); n != 3 {
		t.Errorf("%d of 3 go by route", n)
	}
}

// TestBoundTopic: a destination that is there may not get the topic.
func TestBoundTopic(t *testing.T) { inBoth(t, boundTopic) }

func boundTopic(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.archive("orders.created", "delivered", 2, 0)
	o.relay("billing", "billing.>")
	wantIn(t, call(t, nil, "replay", "--destination=billing", "--topic=orders.created", "--yes", flag).want(t, exitUsage).err,
		"--topic orders.created", "no live relay delivers it to billing")
	call(t, nil, "replay", "--destination=billing", "--topic=orders.*", "--yes", flag).want(t, exitDone) // of a pattern nobody knows
	wantIn(t, call(t, nil, "status", flag).want(t, exitDone).out, "2 wait for destination billing, where no live relay delivers topic orders.created"+
		"  → outbox retry --destination billing --topic orders.created --by-route")
}

// TestWhyOfWhatHasEnded: what is kept is told, and where to see the rest.
func TestWhyOfWhatHasEnded(t *testing.T) { inBoth(t, whyOfWhatHasEnded) }

func whyOfWhatHasEnded(t *testing.T, o *testOutbox) {
	o.archive("orders.created", "delivered", 1, 0)
	o.archive("audit", "discarded", 1, 0)
	o.exec("update outbox.archive set actor = 'me', detail = 'order 7 was deleted' where topic = 'audit'")
	for topic, says := range map[string]string{"orders.created": "it was delivered to default at 2", "audit": "it was discarded by me at 2"} {
		id := strings.Fields(strings.Split(call(t, nil, "list", "--topic="+topic, "--state=delivered,discarded", o.flag).want(t, exitDone).out, "\n")[1])[1]
		wantIn(t, call(t, nil, "why", id, o.flag).want(t, exitDone).out, "message "+id+" of topic "+topic+" is not to be delivered: "+says, "→ outbox show "+id)
		wantIn(t, call(t, nil, "why", id, "--json", o.flag).want(t, exitDone).out, `"ended":{"id":"`+id, `"next":"outbox show `+id)
	}
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func noRelay(t *testing.T, n *night) {
	n.publishes(t, "--topic orders.created")
	command := n.follows(t, "outbox status", "no live relay: nothing is delivered")
	if also := n.follows(t, "outbox check", "no live relay: nothing is delivered"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	_, out := n.delivers(t, command)
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox status", "1 live", "0 ready")
	n.sees(t, "outbox check", "1 live").want(t, exitDone)
}

func relaySuspended(t *testing.T, n *night) {
	relay := n.stalls(t)
	id := n.publishesLarge(t, "orders.created", "order-7")
	n.sees(t, "outbox status", "in flight  1")
	relay.signal(t, syscall.SIGSTOP)
	n.sees(t, "outbox relays", "lapsed")
	n.sees(t, "outbox status", "none live", "no live relay: nothing is delivered")
	command := n.follows(t, "outbox keys", "lost")
	if !strings.Contains(command, id) {
		t.Errorf("keys names %q", command)
	}
	_, out := n.delivers(t, n.follows(t, command, "no relay runs"))
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox keys", "no key is held")
	relay.signal(t, syscall.SIGCONT) // it finds its lease lost, and begins again
	n.sees(t, "outbox status", "2 live")
}

func topicUnhandled(t *testing.T, n *night) {
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	config := "destinations:\n  events: {url: 'stdout:'}\nroutes:\n  - {topics: [\"orders.>\"], to: events}\n"
	write(t, path, config)
	n.env = append(n.env, "OUTBOX_TO=", "OUTBOX_CONFIG="+path)
	relay, _ := n.delivers(t, "outbox run")
	id := n.publishes(t, "--topic biling.refunded")
	n.types(t, n.follows(t, "outbox status", `topic "biling.refunded"`)).want(t, exitDone)
	n.follows(t, "outbox why "+id, "no live relay delivers topic biling.refunded")
	fix := n.follows(t, "outbox check", `"biling.refunded" has ready messages`)
	_, route, ok := strings.Cut(fix, "restart the relays: ")
	if !ok {
		t.Fatalf("check says %q", fix)
	}
	write(t, path, config+"  "+route+"\n")
	relay.signal(t, syscall.SIGTERM)
	relay.wantExit(t, exitDone)
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "biling.refunded", 1)
	n.seesNo(t, "outbox status", "biling.refunded")
	n.types(t, "outbox check").want(t, exitDone)
}

// slowly reads what a relay delivers, 32 KiB at a time.
type slowly struct{}

func (slowly) Write(b []byte) (int, error) {
	time.Sleep(200 * time.Millisecond)
	return len(b), nil
}

func backlogGrows(t *testing.T, n *night) {
	n.pastes(t, `insert into outbox.message (id, topic, payload, published_at)
		select gen_random_uuid(), 'audit.login', convert_to(repeat('x', 2000), 'UTF8'), now() - interval '3 minutes' from generate_series(1, 15000);`)
	n.runs(t, "outbox run", slowly{}, "OUTBOX_SLOTS=100")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	conn := connect(t, n.url)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = conn.Exec(ctx, "select outbox.publish('audit.login', convert_to(repeat('x', 2000), 'UTF8')) from generate_series(1, 100)")
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	command := n.follows(t, "outbox status", "more is published than delivered")
	n.delivers(t, command)
	n.seesNo(t, "outbox status", "more is published than delivered")
}

func settingsDiffer(t *testing.T, n *night) {
	n.delivers(t, "outbox run")
	other, _ := n.delivers(t, "outbox run", "OUTBOX_MAX_ATTEMPTS=3")
	command := n.follows(t, "outbox status", "the relays of default have different rules")
	if also := n.follows(t, "outbox check", "the relays of default have different rules"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.sees(t, command, fmt.Sprint(other.Process.Pid))
	other.signal(t, syscall.SIGTERM)
	other.wantExit(t, exitDone)
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "2 live")
	n.seesNo(t, "outbox status", "different rules")
	n.types(t, "outbox check").want(t, exitDone)
}

func messageKills(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_RETRY_BASE=1h", "OUTBOX_RETRY_MAX=1h")
	id := n.publishesLarge(t, "orders.created", "order-7")
	for range 3 { // the third has it as a suspect
		relay := n.stalls(t, "OUTBOX_LEASE=2s")
		eventually(t, "the relay has it", func() bool {
			return countRows(t, n.admin, fmt.Sprintf("select count(*) from outbox.claim c join outbox.relay r on r.id = c.relay where r.pid = %d", relay.Process.Pid)) == 1
		})
		relay.signal(t, syscall.SIGKILL)
		relay.wantExit(t, -1)
	}
	n.sees(t, "outbox status", "none live")
	_, out := n.delivers(t, n.follows(t, "outbox why "+id, "no relay runs"))
	// It is not delivered once more: having died with it three times is a failed attempt.
	why := n.sees(t, "outbox why "+id, "failed 1 times", "last error (crash)")
	n.sees(t, "outbox keys", "crash")
	n.types(t, named(t, why, "it waits for its time"))
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox keys", "no key is held")
}

func handlerStuck(t *testing.T, n *night) {
	relay := n.stalls(t, "OUTBOX_HANDLER_TIMEOUT=1s", "OUTBOX_DRAIN_TIMEOUT=1s")
	n.publishesLarge(t, "orders.created", "order-7")
	command := n.follows(t, "outbox status", "ignores its cancelled context")
	if also := n.follows(t, "outbox check", "ignores its cancelled context"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.sees(t, command, fmt.Sprint(relay.Process.Pid))
	wantIn(t, relay.log.String(), "handler ignores its cancelled context", "stdoutSink")
	relay.signal(t, syscall.SIGTERM)
	relay.wantExit(t, exitAbandoned)
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "orders.created", 1)
	n.seesNo(t, "outbox status", "ignores its cancelled context")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// broken is a handler that fails until its receiver is repaired.
type broken struct {
	repaired  atomic.Bool
	delivered atomic.Int64
	err       error
}

func (b *broken) handle(context.Context, *outbox.Delivery) error {
	if !b.repaired.Load() {
		return b.err
	}
	b.delivered.Add(1)
	return nil
}

func keyRetrying(t *testing.T, n *night) {
	receiver := &broken{err: errors.New("customer 7 is unknown")}
	n.handles(t, outbox.Config{Retry: outbox.RetryPolicy{Base: time.Hour, Max: time.Hour, DisableJitter: true}}, receiver.handle)
	n.publishes(t, "--topic billing.paid --key customer-7")
	behind := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "1 key, the longest for")
	command = n.follows(t, command, "retrying")
	if also := n.follows(t, "outbox why "+behind, "it waits for its time"); also != command {
		t.Errorf("keys names %q, why %q", command, also)
	}
	receiver.repaired.Store(true)
	n.sees(t, command, "made due: 1 message").want(t, exitDone)
	n.sees(t, "outbox keys", "no key is held")
	eventually(t, "both are delivered", func() bool { return receiver.delivered.Load() == 2 })
}

func keyParked(t *testing.T, n *night) {
	receiver := &broken{err: errors.New("customer 7 is unknown")}
	n.handles(t, outbox.Config{Order: outbox.OrderPark, MaxAttempts: 1}, receiver.handle)
	n.publishes(t, "--topic billing.paid --key customer-7")
	behind := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "1 key, the longest for")
	command = n.follows(t, command, "parked")
	if also := n.follows(t, "outbox why "+behind, "its key is parked"); also != command {
		t.Errorf("keys names %q, why %q", command, also)
	}
	receiver.repaired.Store(true)
	n.sees(t, command, "redriven: 1 message").want(t, exitDone)
	n.sees(t, "outbox keys", "no key is held")
	eventually(t, "both are delivered", func() bool { return receiver.delivered.Load() == 2 })
}

func deadLetters(t *testing.T, n *night) {
	receiver := &broken{err: outbox.Permanent(errors.New("account 4711 is closed"))}
	n.handles(t, outbox.Config{}, receiver.handle)
	n.pastes(t, "select outbox.publish('billing.paid', '') from generate_series(1, 212);")
	n.sees(t, "outbox status", "dead 212 ")
	command := n.follows(t, "outbox status", "dead 212 ")
	command = n.follows(t, command, "billing.paid")
	receiver.repaired.Store(true)
	n.sees(t, command, "redriven: 212 messages").want(t, exitDone)
	eventually(t, "all are delivered", func() bool { return receiver.delivered.Load() == 212 })
	n.sees(t, "outbox dead", "no message is dead")
}

func paused(t *testing.T, n *night) {
	_, out := n.delivers(t, "outbox run")
	n.types(t, "outbox pause --topic 'billing.>' --reason 'wrong invoices'").want(t, exitDone)
	n.types(t, "outbox pause --destination default --reason maintenance").want(t, exitDone)
	id := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "topic billing.>")
	if also := n.follows(t, "outbox why "+id, "topic billing.> is paused"); also != command {
		t.Errorf("status names %q, why %q", command, also)
	}
	n.types(t, command).want(t, exitDone)
	why := n.follows(t, "outbox keys", "customer-7")
	n.types(t, n.follows(t, why, "destination default is paused")).want(t, exitDone)
	arrives(t, out, "billing.paid", 1)
	n.seesNo(t, "outbox status", "paused")
}

// changeStopped: the command is killed, and the one that goes on loses its database.
func changeStopped(t *testing.T, n *night) {
	server := n.ownServer(t, nil)
	makeDead(t, n.admin, "billing.paid", 300)
	redriven := func() int { return countRows(t, n.admin, "select count(*) from outbox.waiting") }
	change := n.runs(t, "outbox redrive --topic billing.paid --rate 50 --yes", io.Discard)
	eventually(t, "it has begun", func() bool { return redriven() > 0 })
	change.signal(t, syscall.SIGKILL)
	change.wantExit(t, -1)
	ops := n.sees(t, "outbox ops", "running").out
	at := strings.Index(ops, "outbox redrive --continue")
	if at < 0 {
		t.Fatalf("ops names nothing: %s", ops)
	}
	command, _, _ := strings.Cut(ops[at:], "\n")
	command = strings.TrimSpace(command)
	before := redriven()
	again := n.runs(t, command, io.Discard)
	eventually(t, "it goes on", func() bool { return redriven() > before })
	if err := server.Stop(t.Context(), pgdev.Immediate); err != nil {
		t.Fatal(err)
	}
	again.wantExit(t, exitFailed)
	fmt.Fprint(&n.transcript, again.log.String())
	if !strings.Contains(again.log.String(), "go on by: "+command) {
		t.Errorf("it does not say how to go on: %s", again.log.String())
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.admin = connect(t, n.url)
	n.pastes(t, "update outbox.operation set rate = null;")
	n.sees(t, command, "redriven: 300 messages").want(t, exitDone)
	n.seesNo(t, "outbox ops", "running")
	if redriven, left := redriven(), countRows(t, n.admin, "select count(*) from outbox.dead"); redriven != 300 || left != 0 {
		t.Errorf("%d of 300 are redriven, each once; %d are dead", redriven, left)
	}
}

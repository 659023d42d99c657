package main

import (
	"flag"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
)

// toNATS sets the operator before a relay that delivers to a stream of a server.
func (n *night) toNATS(t *testing.T, server *natsdev.Server) {
	t.Helper()
	n.env = append(n.env, "OUTBOX_TO="+server.URL(), "OUTBOX_STREAM=ORDERS")
	n.nats = func(t *testing.T, words []string) { natsAdd(t, server.URL(), words) }
}

// natsAdd is nats stream add, as far as the program names it.
func natsAdd(t *testing.T, url string, words []string) {
	t.Helper()
	if len(words) < 4 || words[1] != "stream" || words[2] != "add" {
		t.Fatalf("%q is no nats stream add", words)
	}
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	var subjects, storage string
	var ack, defaults bool
	cfg := jetstream.StreamConfig{Name: words[3]}
	flags.StringVar(&subjects, "subjects", "", "")
	flags.StringVar(&storage, "storage", "", "")
	flags.IntVar(&cfg.Replicas, "replicas", 0, "")
	flags.DurationVar(&cfg.Duplicates, "dupe-window", 0, "")
	flags.BoolVar(&ack, "ack", false, "")
	flags.BoolVar(&defaults, "defaults", false, "")
	if err := flags.Parse(words[4:]); err != nil || flags.NArg() > 0 || !ack || !defaults || storage != "file" {
		t.Fatalf("%q: %v", words, err)
	}
	cfg.Subjects = strings.Split(subjects, ",")
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func destinationDown(t *testing.T, n *night) {
	server := natsServer(t)
	n.toNATS(t, server)
	n.nats(t, []string{"nats", "stream", "add", "ORDERS", "--subjects", "orders.>", "--storage", "file", "--ack", "--defaults"})
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "1 live")
	server.Stop()
	id := n.publishes(t, "--topic orders.created")
	n.sees(t, "outbox status", "default    unavailable")
	n.sees(t, n.follows(t, "outbox why "+id, "destination default is unavailable"), "default    unavailable")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	n.sees(t, "outbox status", "default    available", "0 ready")
	eventually(t, "it is delivered", func() bool { return stored(t, server.URL(), "ORDERS") == 1 })
}

func destinationMisconfigured(t *testing.T, n *night) {
	server := natsServer(t)
	n.toNATS(t, server)
	n.env = append(n.env, "OUTBOX_SUBJECTS=orders.>")
	n.delivers(t, "outbox run")
	id := n.publishes(t, "--topic orders.created")
	command := n.follows(t, "outbox status", "destination default is misconfigured")
	if also := n.follows(t, "outbox why "+id, "destination default is misconfigured"); also != command {
		t.Errorf("status names %q, why %q", command, also)
	}
	n.types(t, n.follows(t, command, "stream ORDERS does not exist"))
	n.sees(t, "outbox status", "default    available", "0 ready")
	eventually(t, "it is delivered", func() bool { return stored(t, server.URL(), "ORDERS") == 1 })
	n.types(t, "outbox check").want(t, exitDone)
}

// destinationGone: a replay has bound messages to a destination, and the next deployment has it no more.
func destinationGone(t *testing.T, n *night) {
	const warehouse = "destinations:\n  warehouse: {url: 'stdout:'}\nroutes:\n  - {topics: [\">\"], to: warehouse}\n"
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	write(t, path, warehouse)
	n.env = append(n.env, "OUTBOX_TO=", "OUTBOX_CONFIG="+path, "OUTBOX_KEEP_DELIVERED=30d")
	relay, out := n.delivers(t, "outbox run")
	id := n.publishes(t, "--topic orders.created --key order-7")
	n.publishes(t, "--topic orders.created --key order-7")
	arrives(t, out, "orders.created", 2)
	n.sees(t, "outbox status", "0 ready", "in flight  0")
	relay.signal(t, syscall.SIGTERM)
	relay.wantExit(t, exitDone)
	n.types(t, "outbox replay --destination warehouse --topic 'orders.>' --reason 'restored from backup'").want(t, exitDone)

	write(t, path, strings.ReplaceAll(warehouse, "warehouse", "events"))
	_, out = n.delivers(t, "outbox run")
	command := n.follows(t, "outbox status", "2 wait for destination warehouse, which no live relay has")
	if also := n.follows(t, "outbox check", "2 wait for destination warehouse, which no live relay has"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	one := n.follows(t, "outbox why "+id, "it is bound to destination warehouse, which no live relay has")
	n.sees(t, "outbox list --destination warehouse", id, "warehouse")
	n.types(t, "outbox retry --destination warehouse").want(t, exitUsage)
	if text := out.String(); text != "" {
		t.Errorf("it is delivered all the same: %s", text)
	}
	n.sees(t, one, "made due: 1 message").want(t, exitDone)
	arrives(t, out, "orders.created", 1)
	n.follows(t, "outbox status", "1 waits for destination warehouse, which no live relay has")
	n.sees(t, command, "made due: 1 message").want(t, exitDone)
	arrives(t, out, "orders.created", 2)
	n.seesNo(t, "outbox status", "warehouse")
	n.types(t, "outbox check").want(t, exitDone)
}

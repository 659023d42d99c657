package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

func rabbitServer(t *testing.T) *rabbitdev.Server {
	t.Helper()
	s, err := rabbitdev.Start(t.Context())
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRunToRabbit shares one server, which takes seconds to start.
func TestRunToRabbit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	server := rabbitServer(t)
	t.Run("options", func(t *testing.T) { testRabbitOptions(t, server) })
	t.Run("check", func(t *testing.T) { testRabbitCheck(t, server) })
	t.Run("rotated", func(t *testing.T) { testRabbitRotated(t, server) })
}

// testRabbitOptions: one command, no file.
func testRabbitOptions(t *testing.T, server *rabbitdev.Server) {
	url := migrated(t)
	if err := server.Bind("orders", "orders", "shop.#", nil); err != nil {
		t.Fatal(err)
	}
	env := []string{"OUTBOX_DATABASE_URL=" + url, "OUTBOX_TO=" + server.URL(), "OUTBOX_EXCHANGE=orders", "OUTBOX_ROUTING_KEY=shop.{topic}"}
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, `{"topic":"orders.created","key":"k%d","payload":%d,"headers":{"content-type":"application/json"}}`+"\n", i%3, i)
	}
	call(t, env, "publish", "--file", write(t, filepath.Join(t.TempDir(), "lines"), lines.String())).want(t, exitDone)
	r := call(t, env, "run", "--once", "--broker-ttl=1h", "--tracking-ids").want(t, exitDone)
	wantIn(t, r.err, "delivered 20")
	all, err := server.Messages("orders")
	if err != nil || len(all) != 20 {
		t.Fatalf("the queue holds %d of 20, %v", len(all), err)
	}
	if m := all[0]; m.RoutingKey != "shop.orders.created" || m.Expiration != "3600000" || m.ContentType != "application/json" {
		t.Errorf("%+v", m)
	}
}

// testRabbitCheck: a destination that is not fit is a finding with what to do, and no message's attempt.
func testRabbitCheck(t *testing.T, server *rabbitdev.Server) {
	env := []string{"OUTBOX_DATABASE_URL=" + migrated(t), "OUTBOX_TO=" + server.URL(), "OUTBOX_EXCHANGE=later"}
	r := call(t, env, "check", "--exchange-passive").want(t, exitUnhealthy)
	wantIn(t, r.out, "FOUND  destination default", "exchange later does not exist; create it as a durable topic exchange, or let it be declared")
	if strings.Contains(r.out, server.URL()) {
		t.Errorf("the password is shown: %s", r.out)
	}
	wantIn(t, call(t, env, "check").want(t, exitUnhealthy).out, "ok     destination default  works")
	wantIn(t, call(t, env, "check", "--exchange-passive").want(t, exitUnhealthy).out, "ok     destination default  works")
}

// testRabbitRotated: the password in the file is wrong at first, and right when the file is replaced.
func testRabbitRotated(t *testing.T, server *rabbitdev.Server) {
	url := migrated(t)
	if err := server.Bind("rotated", "rotated", "#", nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "amqp-url"), "amqp://nobody:hush@"+server.Addr())
	config := write(t, filepath.Join(dir, "outbox.yaml"), `
database: {url: "`+url+`"}
destinations:
  billing: {url_file: amqp-url, exchange: rotated, routing_key: "{topic}"}
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, ended := &lockedBuffer{}, make(chan int)
	go func() { ended <- run(ctx, []string{"run", "--config", config}, []string{noAdmin}, log, log) }()
	call(t, nil, "publish", "--topic=a", "--max-attempts=1", "--database-url="+url).want(t, exitDone)
	eventually(t, "the relay tells", func() bool { return strings.Contains(log.String(), "the login is refused") })
	write(t, filepath.Join(dir, "amqp-url"), server.URL())
	call(t, nil, "wait", "--timeout=1m", "--database-url="+url).want(t, exitDone)
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	if strings.Contains(log.String(), "hush") {
		t.Errorf("a password is shown: %s", log.String())
	}
	if all, err := server.Messages("rotated"); err != nil || len(all) != 1 {
		t.Errorf("the queue holds %d messages, %v", len(all), err)
	}
}

// TestRabbitRefused: everything that is wrong is said at once, before anything connects.
func TestRabbitRefused(t *testing.T) {
	for _, c := range []struct {
		destination string
		want        []string
	}{
		{`url: "amqp://h", routing_key: "{nothing}"`, []string{"routing_key", "unknown variable {nothing}"}},
		{`url: "amqp://h", broker_ttl: 0s, ttl: -1s, confirm_timeout: 1h`, []string{"broker_ttl", "ttl", "confirm_timeout"}},
		{`url: "amqp://h", broker_ttl: 60`, []string{"broker_ttl"}},
		{`url: "amqp://h", ttl: 10ns, broker_ttl: 5ns`, []string{"destinations.billing.ttl \"10ns\"", "destinations.billing.broker_ttl \"5ns\""}},
		{`url: "amqp://u:12/geheim@h"`, []string{"is no URL such as amqp://"}},
		{`url: "amqp://h?heartbeat=geheim"`, []string{"heartbeat", "whole number"}},
		{`url: "amqp://h", max_in_flight: many`, []string{"max_in_flight", "whole number"}},
		{`url: "amqp://h", exchange_passive: perhaps`, []string{"exchange_passive", "true or false"}},
		{`url: "amqp://h", exchang: a`, []string{"did you mean", "exchange"}},
		{`url: "amqp://h", stream: A`, []string{"stream is no option of amqp://host:5672"}},
		{`url: "amqp://"`, []string{"is no URL such as amqp://"}},
		{`url: "amqp://u:ge#heim@h"`, []string{"is no URL such as amqp://"}},
		{`url: "amqp://h", ca_file: ca.pem`, []string{"amqps:"}},
		{`url: "amqps://h", cert_file: c.pem`, []string{"cert_file and key_file need each other"}},
		{`url: "ampq://h"`, []string{"did you mean amqp"}},
	} {
		file := configFile(t, "database: {url: \"postgres://h\"}\ndestinations:\n  billing: {"+c.destination+"}\n")
		r := call(t, nil, "config", "--config", file).want(t, exitUsage)
		wantIn(t, r.err, c.want...)
		if strings.Contains(r.err, "heim") {
			t.Errorf("a password is shown: %s", r.err)
		}
	}
}

func TestRabbitWithFiles(t *testing.T) {
	d := &destination{options: map[string]string{rabbitCA: "/a/c a.pem", rabbitCertificate: "/c", rabbitKey: "/k"}}
	want := "amqps://h/v?cacertfile=%2Fa%2Fc+a.pem&certfile=%2Fc&keyfile=%2Fk,amqps://i?heartbeat=5&cacertfile=%2Fa%2Fc+a.pem&certfile=%2Fc&keyfile=%2Fk"
	if got := d.withFiles("amqps://h/v, amqps://i?heartbeat=5"); got != want {
		t.Errorf("%s", got)
	}
	if got := (&destination{}).withFiles("amqp://h"); got != "amqp://h" {
		t.Errorf("%s", got)
	}
}

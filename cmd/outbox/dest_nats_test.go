package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
)

func natsServer(t *testing.T) *natsdev.Server {
	t.Helper()
	s, err := natsdev.Start(natsdev.Config{})
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

// stored counts the messages of a stream.
func stored(t *testing.T, url, stream string) uint64 {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// TestRunToNATS: one command, no file, the stream made when it is asked for.
func TestRunToNATS(t *testing.T) {
	t.Parallel()
	url, server := migrated(t), natsServer(t)
	env := []string{"OUTBOX_DATABASE_URL=" + url, "OUTBOX_TO=" + server.URL(), "OUTBOX_STREAM=ORDERS", "OUTBOX_SUBJECTS=orders.>"}
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintf(&lines, `{"topic":"orders.created","key":"k%d","payload":%d}`+"\n", i%3, i)
	}
	file := write(t, filepath.Join(t.TempDir(), "lines"), lines.String())
	call(t, env, "publish", "--file", file).want(t, exitDone)

	r := call(t, env, "check").want(t, exitUnhealthy)
	wantIn(t, r.out, "FOUND  destination default", "nats stream add ORDERS --subjects 'orders.>'")
	r = call(t, env, "run", "--once", "--create").want(t, exitDone)
	wantIn(t, r.err, "delivered 50")
	if n := stored(t, server.URL(), "ORDERS"); n != 50 {
		t.Errorf("the stream holds %d of 50", n)
	}
	wantIn(t, call(t, env, "check").want(t, exitUnhealthy).out, "ok     destination default  works")
}

// TestRunWaitsForNATS: a broker that is not there yet is waited for, and costs no attempt.
func TestRunWaitsForNATS(t *testing.T) {
	t.Parallel()
	url, server := migrated(t), natsServer(t)
	server.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, ended := &lockedBuffer{}, make(chan int)
	go func() {
		ended <- run(ctx, []string{"run", "--database-url=" + url, "--to=" + server.URL(), "--stream=A", "--create", "--subjects=a"}, []string{noAdmin}, log, log)
	}()
	call(t, nil, "publish", "--topic=a", "--max-attempts=1", "--database-url="+url).want(t, exitDone)
	eventually(t, "the relay tells", func() bool { return strings.Contains(log.String(), "destination is unavailable") })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	call(t, nil, "wait", "--timeout=1m", "--database-url="+url).want(t, exitDone)
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	if n := stored(t, server.URL(), "A"); n != 1 {
		t.Errorf("the stream holds %d messages", n)
	}
}

func TestRotatingUser(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "url"), "nats://me:old@a:1,nats://me:old@b:2")
	s := secret{file: file}
	text, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	bare, options := rotatingUser(s, text)
	if bare != "nats://a:1,nats://b:2" || len(options) != 1 {
		t.Fatalf("%s with %d options", bare, len(options))
	}
	o := nats.GetDefaultOptions()
	if err := options[0](&o); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"old", "new"} {
		write(t, file, "nats://me:"+password+"@a:1")
		if user, got := o.UserInfo(); user != "me" || got != password {
			t.Errorf("%s:%s, want me:%s", user, got, password)
		}
	}
	write(t, file, "nats://a:1")
	if _, got := o.UserInfo(); got != "new" {
		t.Errorf("a file without a user: %s, want the last one", got)
	}
	write(t, file, "nats://token@a:1")
	_, options = rotatingUser(s, "nats://token@a:1")
	if err := options[0](&o); err != nil || o.TokenHandler() != "token" {
		t.Errorf("token: %v", err)
	}
	if bare, options := rotatingUser(s, "nats://a:1"); bare != "nats://a:1" || options != nil {
		t.Errorf("without a user: %s, %d options", bare, len(options))
	}
}

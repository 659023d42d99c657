package natssink

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
)

func delivery(topic, payload string) *outbox.Delivery {
	return &outbox.Delivery{
		Message: outbox.Message{ID: outbox.NewID(), Topic: topic, Payload: []byte(payload)}, Seq: 1, Attempt: 1, PublishedAt: time.Now(),
	}
}

// client is a connection of the test's own.
func client(t *testing.T, server *natsdev.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// TestDuplicate: an acknowledgement was lost, the message is sent again: delivered, stored once, counted.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	d := delivery("sinktest.a", "1")
	for i := range 3 {
		if err := h.sink.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if n := h.sink.Stats().Duplicates; n != int64(i) {
			t.Errorf("%d duplicates after %d deliveries", n, i+1)
		}
	}
	d.Generation = 2
	if err := h.sink.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	all, err := h.Stored(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%d stored, %v", len(all), err)
	}
	if first, second := all[0].Headers["Nats-Msg-Id"], all[1].Headers["Nats-Msg-Id"]; first != d.ID.String() || second != d.ID.String()+".2" {
		t.Errorf("ids %s and %s", first, second)
	}
}

// TestMissingStream: a clear destination error with the command that helps, also when a plain subscriber hides that
// nothing stores the message, and delivery as soon as the stream is there.
func TestMissingStream(t *testing.T) {
	t.Parallel()
	for _, hidden := range []bool{false, true} {
		server := startServer(t)
		conn, js := client(t, server)
		if hidden {
			if _, err := conn.Subscribe(">", func(*nats.Msg) {}); err != nil {
				t.Fatal(err)
			}
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		sink := open(t, server, Config{Stream: "ORDERS", Topics: []string{"orders.>"}, AckTimeout: 2 * time.Second})
		err := sink.Preflight(t.Context())
		if err == nil || !strings.Contains(err.Error(), "nats stream add ORDERS --subjects 'orders.>'") {
			t.Errorf("preflight: %v", err)
		}
		d := delivery("orders.created", "1")
		if err := sink.Deliver(t.Context(), d); !outbox.IsUnavailable(err) {
			t.Errorf("hidden %v: %v", hidden, err)
		}
		err = sink.DeliverBatch(t.Context(), []*outbox.Delivery{d, delivery("orders.created", "2")}, func(_ int, err error) {
			if !outbox.IsUnavailable(err) {
				t.Errorf("hidden %v: %v", hidden, err)
			}
		})
		if err != nil && !outbox.IsUnavailable(err) {
			t.Error(err)
		}
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(sink.Preflight(t.Context()), sink.Deliver(t.Context(), d)); err != nil {
			t.Errorf("hidden %v, after the stream was created: %v", hidden, err)
		}
	}
}

// TestAnswers: what answers to a message, and is not the stream's acknowledgement.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{AckTimeout: 200 * time.Millisecond})
	conn, js := client(t, h.server)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	for subject, answer := range map[string]string{
		"garbage": "pong", "imposter": `{"stream":"IMPOSTER","seq":1}`, "prefix": `{"stream":"TESTS","seq":1}`,
		"refusal": `{"error":{"code":400,"err_code":10025,"description":"no"}}`, "per.subject": `{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"}}`,
		"full": `{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}`, "silent": "",
		"named.error": `{"stream":"TEST","seq":1,"domain":"error"}`,
	} {
		if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
			if answer != "" {
				_ = m.Respond([]byte(answer))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	is := func(err error) string {
		switch {
		case err == nil:
			return "delivered"
		case outbox.IsPermanent(err):
			return "permanent"
		case outbox.IsUnavailable(err):
			return "unavailable"
		case errors.Is(err, outbox.ErrHandlerTimeout):
			return "late"
		}
		return "failed"
	}
	for subject, want := range map[string]string{
		"other": "unavailable", "nobody": "unavailable", "garbage": "unavailable", "imposter": "unavailable", "prefix": "unavailable",
		"refusal": "failed", "per.subject": "failed", "full": "unavailable", "silent": "late", "sinktest.a": "delivered", "named.error": "delivered",
	} {
		h.sink.streamSubjects.Store(&[]string{">"}) // as if the stream had had all of them when it was last seen
		if err := h.sink.Deliver(t.Context(), delivery(subject, "1")); is(err) != want {
			t.Errorf("%s: %s instead of %s: %v", subject, is(err), want, err)
		}
	}
}

// TestTooLargeForStream: before and after Preflight has seen the stream's limit, that one message fails.
func TestTooLargeForStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	_, js := client(t, h.server)
	config := jetstream.StreamConfig{Name: streamName, Subjects: []string{"sinktest.>"}, MaxMsgSize: 2000}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var errs [3]error
		err := h.sink.DeliverBatch(t.Context(), []*outbox.Delivery{
			delivery("sinktest.a", "1"), delivery("sinktest.a", strings.Repeat("x", 2000)), delivery("sinktest.a", "2"),
		}, func(i int, err error) { errs[i] = err })
		if err != nil || errs[0] != nil || errs[2] != nil || !outbox.IsPermanent(errs[1]) || !errors.Is(errs[1], errTooLarge) {
			t.Errorf("%v, %v", err, errs)
		}
		if err := h.sink.Preflight(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClose: messages on their way become unavailable at once, and later ones too.
func TestClose(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	conn, _ := client(t, h.server)
	got := make(chan struct{}, 1)
	if _, err := conn.Subscribe("silent", func(*nats.Msg) { got <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- h.sink.Deliver(context.Background(), delivery("silent", "1")) }()
	<-got
	h.sink.Close()
	h.sink.Close()
	if err := <-result; !outbox.IsUnavailable(err) {
		t.Errorf("under way: %v", err)
	}
	if err := h.sink.Deliver(t.Context(), delivery("sinktest.a", "1")); !outbox.IsUnavailable(err) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestNewRefuses: a connection that would keep messages while it is disconnected, and none at all.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	conn, _ := client(t, server)
	var field *outbox.FieldError
	if _, err := New(conn, nil); !errors.As(err, &field) || !strings.Contains(err.Error(), "nats.ReconnectBufSize(-1)") {
		t.Errorf("a buffering connection: %v", err)
	}
	if _, err := New(nil, nil); !errors.As(err, &field) {
		t.Errorf("no connection: %v", err)
	}
	sound, err := nats.Connect(server.URL(), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer sound.Close()
	sink, err := New(sound, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sink.Close(); sound.IsClosed() {
		t.Error("a connection of the caller's was closed")
	}
}

func TestConfigRefused(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Config.Subject":     {Subject: "{nothing}"},
		"Config.AckTimeout":  {AckTimeout: time.Millisecond},
		"Config.MaxInFlight": {MaxInFlight: -1},
		"Config.Replicas":    {Replicas: 6},
		"Config.Stream":      {Create: true},
		"Config.Topics[1]":   {Topics: []string{"a", "b..c"}},
		"Config.Subjects":    {Create: true, Stream: "S"},
	} {
		_, err := New(nil, &cfg)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestPreflight: each stream that is of no use is named, with the reason; what may be intended is advised once.
func TestPreflight(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	_, js := client(t, server)
	for text, config := range map[string]jetstream.StreamConfig{
		"does not acknowledge":      {Subjects: []string{"a.>"}, NoAck: true},
		"is a mirror of OTHER":      {Mirror: &jetstream.StreamSource{Name: "OTHER"}},
		"has the subjects b.>":      {Subjects: []string{"b.>"}},
		"warn:duplicate_window=2s":  {Subjects: []string{"a.>"}, Duplicates: 2 * time.Second},
		"warn:message_subjects=a.>": {Subjects: []string{"a.b"}, Duplicates: time.Hour},
		"warn:makes it unavailable": {Subjects: []string{"a.>"}, Duplicates: time.Hour, Discard: jetstream.DiscardNew, MaxMsgs: 10},
	} {
		config.Name = "S"
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		log := &bytes.Buffer{}
		sink := open(t, server, Config{Stream: "S", Topics: []string{"a.>"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		err := errors.Join(sink.Preflight(t.Context()), sink.Preflight(t.Context()))
		if warning, ok := strings.CutPrefix(text, "warn:"); ok {
			if err != nil || strings.Count(log.String(), warning) != 1 || strings.Count(log.String(), "level=") != 1 {
				t.Errorf("%s: %v, log:\n%s", text, err, log)
			}
		} else if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
		if err := js.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPreflightFullAndSealed(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	_, js := client(t, server)
	config := jetstream.StreamConfig{Name: "S", Subjects: []string{"a.>"}, Discard: jetstream.DiscardNew, MaxMsgs: 1, Duplicates: time.Minute}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	sink := open(t, server, Config{Stream: "S", Topics: []string{"a.>"}})
	if err := errors.Join(sink.Preflight(t.Context()), sink.Deliver(t.Context(), delivery("a.b", "1"))); err != nil {
		t.Fatal(err)
	}
	if err := sink.Deliver(t.Context(), delivery("a.b", "2")); !outbox.IsUnavailable(err) {
		t.Errorf("delivered to a full stream: %v", err)
	}
	if err := sink.Preflight(t.Context()); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("preflight of a full stream: %v", err)
	}
	config.Sealed = true
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := sink.Deliver(t.Context(), delivery("a.b", "3")); !outbox.IsUnavailable(err) {
		t.Errorf("delivered to a sealed stream: %v", err)
	}
	if err := sink.Preflight(t.Context()); err == nil || !strings.Contains(err.Error(), "is sealed") {
		t.Errorf("preflight of a sealed stream: %v", err)
	}
}

// TestCreate: the stream is made as configured, and an existing one is left as it is.
func TestCreate(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	_, js := client(t, server)
	for _, window := range []time.Duration{time.Hour, time.Minute} {
		sink := open(t, server, Config{
			Stream: "S", Topics: []string{"a.>", "b"}, Subject: "x.{topic}", Create: true, DuplicateWindow: window, Storage: jetstream.MemoryStorage,
		})
		if err := sink.Preflight(t.Context()); err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		if strings.Join(c.Subjects, " ") != "x.a.> x.b" || c.Duplicates != time.Hour || c.Storage != jetstream.MemoryStorage || c.Replicas != 1 {
			t.Errorf("created %+v", c)
		}
	}
}

// TestAbsentServer: opening does not wait for the server; errors do not show secrets.
func TestAbsentServer(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	server.Stop()
	sink, err := Open(strings.Replace(server.URL(), "//", "//user:secret@", 1), &Config{}, nats.ReconnectWait(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	for what, err := range map[string]error{"preflight": sink.Preflight(t.Context()), "ping": sink.Ping(t.Context()), "deliver": sink.Deliver(t.Context(), delivery("a", "1"))} {
		if !errors.Is(err, errNotConnected) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWrongPassword: who is not let in is told so, and not only that there is no connection.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server, err := natsdev.Start(natsdev.Config{User: "me", Password: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	sink, err := Open(strings.Replace(server.URL(), "//", "//me:wrong@", 1), &Config{}, nats.ReconnectWait(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := sink.Preflight(t.Context())
		if errors.Is(err, errNotConnected) && errors.Is(err, nats.ErrAuthorization) && !strings.Contains(err.Error(), "wrong@") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

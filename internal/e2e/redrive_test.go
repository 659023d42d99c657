package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// TestRedriveKilled: dead letters of three kinds, whose ids the stream still knows, are redriven at a rate while others are
// published under the same keys. The command is killed, and goes on by what outbox ops says. All of them reach the stream once
// more, those of a key in order.
func TestRedriveKilled(t *testing.T) {
	plays(t)
	letters := sizeOf(t, "OUTBOX_TEST_REDRIVE_MESSAGES", 2000)
	const rate = 2000
	db, server := newDatabase(t), newNATS(t)
	publishLetters(t, db, letters)
	// They were delivered, and yet died: their relays did not hear of it.
	db.exec(t, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, error_class, last_error)
		select seq, id, topic, key, payload, headers, published_at, 10, (array['timeout', 'error', 'permanent'])[1 + seq % 3], 'kind ' || seq % 3
		from outbox.message`)
	relay := startProgram(t, "run", "--database-url", db.url, "--to", server.URL(), "--stream", stream, "--subjects", "events.>", "--create", "--log-format", "json")
	db.drained(t, 3*time.Minute)

	ctx, stop := context.WithCancel(t.Context())
	load := make(chan int)
	go func() { load <- publishLoad(ctx, t, db) }()
	redrive := startProgram(t, "redrive", "--all", "--yes", "--rate", strconv.Itoa(rate), "--reason", "the stream was away", "--database-url", db.url)
	const changed = `select coalesce(max((counts ->> 'changed')::int), 0) from outbox.operation`
	until(t, time.Minute, "some are redriven", func() bool { return db.count(t.Context(), changed) > 0 })
	if err := redrive.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = redrive.Wait() // it was killed
	before := db.count(t.Context(), changed)
	if before >= letters {
		t.Fatalf("all %d were redriven before the command was killed", letters)
	}
	begin := time.Now()
	callProgram(t, append(goOn(t, db, letters), "--database-url", db.url)...)
	if took, least := time.Since(begin), time.Duration(letters-before)*time.Second/rate; took < least*9/10 {
		t.Errorf("the rest took %v: %d messages at %d a second take %v", took, letters-before, rate, least)
	}
	stop()
	published := <-load
	db.drained(t, 3*time.Minute)
	if n := db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d are still dead", n)
	}
	wantRedriven(t, server.URL(), letters, published)
	relay.stop(t)
	t.Logf("%d dead letters redriven, %d before the kill, while %d others were published", letters, before, published)
}

// goOn are the arguments of the command that outbox ops names for the only operation, which has stopped.
func goOn(t *testing.T, db *database, letters int) []string {
	t.Helper()
	var ops struct {
		Operations []struct {
			Verb, State, Actor, Reason, Next string
			Rate, Changed                    int
		}
	}
	if err := json.Unmarshal([]byte(callProgram(t, "ops", "--json", "--database-url", db.url)), &ops); err != nil {
		t.Fatal(err)
	}
	if len(ops.Operations) != 1 {
		t.Fatalf("%+v", ops)
	}
	op := ops.Operations[0]
	if op.Verb != "redrive" || op.State != "running" || op.Actor == "" || op.Reason != "the stream was away" || op.Rate != 2000 || op.Changed >= letters {
		t.Fatalf("%+v", op)
	}
	return strings.Fields(strings.TrimPrefix(op.Next, "outbox "))
}

const letterKeys = 50

func publishLetters(t *testing.T, db *database, n int) {
	t.Helper()
	db.exec(t, fmt.Sprintf(`insert into outbox.message (id, topic, key, payload)
		select outbox.new_id(), 'events.letter', 'k' || g %% %d, convert_to(g::text, 'UTF8') from generate_series(1, %d) g order by g`, letterKeys, n))
}

// publishLoad publishes under the letters' keys until the context ends, and returns how many.
func publishLoad(ctx context.Context, t *testing.T, db *database) (n int) {
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return n
		case <-tick.C:
		}
		tx, err := db.pool.Begin(t.Context())
		if err == nil {
			_, err = publisher.Publish(t.Context(), tx, outbox.Message{Topic: "events.load", Key: "k" + strconv.Itoa(n%letterKeys), Payload: []byte(strconv.Itoa(n))})
		}
		if err == nil {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Error(err)
			return n
		}
		n++
	}
}

// wantRedriven reads the stream: each letter is there twice, the second time redriven, and what was published meanwhile once; within a
// key each kind is in order.
func wantRedriven(t *testing.T, url string, letters, published int) {
	t.Helper()
	kinds := map[string]int{}
	latest := map[string]int{}
	for _, m := range readStream(t, url) {
		generation := m.Headers().Get("Outbox-Generation")
		kind := m.Headers().Get("Outbox-Topic") + " " + generation
		kinds[kind]++
		seq, err := strconv.Atoi(m.Headers().Get("Outbox-Seq"))
		if err != nil {
			t.Fatal(err)
		}
		of := kind + m.Headers().Get("Outbox-Key")
		if seq <= latest[of] {
			t.Errorf("%s: %d comes after %d", of, seq, latest[of])
		}
		latest[of] = seq
	}
	want := map[string]int{"events.letter ": letters, "events.letter 1": letters, "events.load ": published}
	for kind, n := range want {
		if kinds[kind] != n {
			t.Errorf("the stream has %v, want %v", kinds, want)
			break
		}
	}
}

func readStream(t *testing.T, url string) (all []jetstream.Msg) {
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range s.CachedInfo().State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// sizeOf is how large a test is: a variable of the environment says, for product sizes.
func sizeOf(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: must be a number of messages", variable, text)
	}
	return n
}

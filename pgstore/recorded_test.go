package pgstore

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// recordSchema records the fixture anew: an outbox at the newest schema version with messages in every state, as pg_dump
// writes it. pg_dump must be in the PATH:
//
//	PATH=$PATH:$(pg_config --bindir) go test ./pgstore -run TestRecordedSchema -record-schema
//
// After a release the file stays as it is, and the next version gets one of its own.
var recordSchema = flag.Bool("record-schema", false, "record the newest schema version with messages in every state")

// recordedVersion is the schema version of the fixture.
const recordedVersion = 1

var recordedFile = fmt.Sprintf("testdata/schema-%04d.sql", recordedVersion)

// recorded are the messages of the fixture by topic, and what becomes of them there.
const (
	topicReady  = "up.ready"
	topicFlight = "up.flight" // a relay that is gone holds them
	topicRetry  = "up.retry"  // the first waits for its second attempt, the second one behind it
	topicLater  = "up.later"  // scheduled
	topicDead   = "up.dead"
	topicParked = "up.parked" // the first is dead and holds its key
	topicPaused = "up.paused"
	topicKept   = "up.kept" // delivered, in the archive
)

// recordedLabels are the payloads of the messages of each topic, those of each in the order of publishing.
var recordedLabels = map[string][]string{
	topicReady: {"ready 1", "ready 2", "ready 3", "ready 4"}, topicFlight: {"flight 1", "flight 2"}, topicRetry: {"retry 1", "retry 2"},
	topicLater: {"later 1"}, topicDead: {"dead 1", "dead 2"}, topicParked: {"parked 1", "parked 2"}, topicPaused: {"paused 1"}, topicKept: {"kept 1", "kept 2"},
}

// recordedMessage is a message as the fixture has it: one key for each topic but the ready ones' last, which has everything else.
func recordedMessage(topic, label string) outbox.Message {
	m := outbox.Message{Topic: topic, Key: topic, Payload: []byte(label), Headers: map[string]string{"Label": label}}
	switch {
	case label == "ready 4":
		m.Key, m.DedupKey, m.ContentType, m.MaxAttempts, m.BrokerTTL = "", "once", "text/plain", 7, time.Hour
	case topic == topicLater:
		m.Delay = time.Hour
	case topic == topicDead:
		m.Key = ""
	}
	return m
}

// record makes the fixture's messages.
func record(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	store := newStore(t, url, &Config{KeepDelivered: outbox.KeepForever})
	for _, topic := range []string{topicReady, topicFlight, topicRetry, topicLater, topicDead, topicParked, topicPaused, topicKept} {
		for _, label := range recordedLabels[topic] {
			publish(t, conn, store.Publisher, recordedMessage(topic, label))
		}
	}
	relay := func(topic string) (*testRelay, []*outbox.Delivery) {
		r := newTestRelay(t, store, topic)
		return r, r.claim(t, 100)
	}
	gone, _ := relay(topicFlight)
	r, ds := relay(topicRetry)
	settleAs(t, r, ds, outbox.Outcome{Kind: outbox.Retried, Attempts: 1, Delay: time.Hour}, outbox.Outcome{Kind: outbox.Unlisted})
	r, ds = relay(topicDead)
	settleAs(t, r, ds, outbox.Outcome{Kind: outbox.Died, Attempts: 3}, outbox.Outcome{Kind: outbox.Died, Attempts: 3})
	r, ds = relay(topicParked)
	settleAs(t, r, ds, outbox.Outcome{Kind: outbox.Died, Attempts: 3, Holds: true}, outbox.Outcome{Kind: outbox.Unlisted})
	r, ds = relay(topicKept)
	r.settle(t, outbox.Delivered, ds...)
	if _, err := store.Pause(t.Context(), outbox.Pause{Topic: topicPaused, Actor: "test", Reason: "recorded"}); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "delete from outbox.relay where id <> $1", gone.info.ID)
}

// settleAs settles one outcome for each delivery.
func settleAs(t *testing.T, r *testRelay, ds []*outbox.Delivery, os ...outbox.Outcome) {
	t.Helper()
	if len(ds) != len(os) {
		t.Fatalf("%d deliveries for %d outcomes", len(ds), len(os))
	}
	for i, d := range ds {
		os[i].Claim, os[i].Seq = d.Claim, d.Seq
		if os[i].Kind != outbox.Unlisted {
			os[i].Class, os[i].Text = "error", "as recorded"
		}
	}
	if _, err := r.store.Settle(t.Context(), os); err != nil {
		t.Fatal(err)
	}
}

// dump writes a database's outbox as SQL that any client can run, with the digest of the migrations that made it.
func dump(t *testing.T, url string) string {
	t.Helper()
	out, err := osexec.Command("pg_dump", "--inserts", "--no-owner", "--schema=outbox", url).Output()
	if err != nil {
		t.Fatalf("pg_dump must be in the PATH: %v", err)
	}
	ofPsql := regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`)
	return fmt.Sprintf("-- made by go test ./pgstore -run TestRecordedSchema -record-schema\n-- migrations: %s\n%s",
		migrationsDigest(t), ofPsql.ReplaceAllString(string(out), ""))
}

// migrationsDigest is a digest of the migrations up to the recorded version.
func migrationsDigest(t *testing.T) string {
	t.Helper()
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, m := range all[:recordedVersion] {
		fmt.Fprint(h, m.script(DefaultSchema))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// recordedDatabase is a database as the fixture has it.
func recordedDatabase(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	url := postgres.Database(t)
	conn := connect(t, url)
	exec(t, conn, string(text))
	// However long ago it was recorded.
	exec(t, conn, "update outbox.relay set lease_until = clock_timestamp() - interval '1 second'")
	return url
}

// TestRecordedSchema: the fixture is of migrations that nobody has edited since.
func TestRecordedSchema(t *testing.T) {
	if *recordSchema {
		url := migratedDatabase(t)
		record(t, url)
		if err := os.WriteFile(recordedFile, []byte(dump(t, url)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "-- migrations: "+migrationsDigest(t)) {
		t.Errorf("a migration up to version %d has been edited since %s was recorded. Once it is released it must not be: make a new one. "+
			"Before that, record the file again, see recordSchema", recordedVersion, recordedFile)
	}
}

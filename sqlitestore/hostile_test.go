package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestHostileKeys: whatever a key is made of, it is a key of its own, in order, and found by its name.
func TestHostileKeys(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s, _ := keepingStore(t, db)
	keys := []string{"'; drop table outbox_message; --", `"`, `\`, `\"`, `<>&`, "\u2028", "\u00e9", "e\u0301", "😀", "%", "_", "*", "[a-z]", "null", "0",
		"0.0", "1e3", "true", `{"a":1}`, `["x"]`, "$.key", "?1", " ", "  ", "K", "k", strings.Repeat("ß", 256)}
	publishAll := func(payload string) {
		for _, key := range keys {
			dedup := payload + key
			if len(dedup) > outbox.MaxDedupKeyBytes {
				dedup = dedup[:outbox.MaxDedupKeyBytes]
			}
			publish(t, s, outbox.Message{Topic: "a", Key: key, Payload: []byte(payload), DedupKey: dedup})
		}
	}
	r, other := newTestRelay(t, s, lease), newTestRelay(t, newStore(t, db, nil), lease)
	publishAll("0")
	first := r.claim(t, len(keys))
	publishAll("1")
	seen := map[string]bool{}
	for _, d := range first {
		seen[d.Key] = true
	}
	if len(first) != len(keys) || len(seen) != len(keys) {
		t.Fatalf("claimed %d messages of %d keys, want %d", len(first), len(seen), len(keys))
	}
	if ds := other.claim(t, 1); len(ds) != 0 {
		t.Fatalf("key %q is with two relays", ds[0].Key)
	}
	r.settle(t, outbox.Died, first...)
	for _, key := range keys {
		why, err := s.Why(t.Context(), outbox.WhyQuery{Key: key})
		if err != nil || why.Message == nil || why.Message.Key != key {
			t.Errorf("why %q: %+v, %v", key, why.Message, err)
		}
		page, err := s.List(t.Context(), outbox.ListQuery{Filter: outbox.Filter{Key: key}})
		if err != nil || len(page.Messages) != 2 || page.Messages[1].Message.Key != key || page.Messages[1].State != outbox.StateDead {
			t.Errorf("list %q: %+v, %v", key, page, err)
		}
		report, err := s.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{Key: key}})
		if err != nil || report.Changed != 1 {
			t.Errorf("redrive %q: %+v, %v", key, report, err)
		}
	}
	delivered := map[string]string{}
	for _, d := range r.claim(t, 2*len(keys)) {
		delivered[d.Key] += string(d.Payload)
		r.settle(t, outbox.Delivered, d)
	}
	for _, key := range keys {
		if delivered[key] != "01" {
			t.Errorf("key %q: delivered %q", key, delivered[key])
		}
		report, err := s.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{Key: key}})
		if err != nil || report.Changed != 2 {
			t.Errorf("purge %q: %+v, %v", key, report, err)
		}
	}
}

// TestHostileTopics: a topic that the library refuses is refused by the table, too.
func TestHostileTopics(t *testing.T) {
	db := openFile(t, migratedFile(t))
	insert := func(topic string) error {
		_, err := db.ExecContext(t.Context(), `insert into outbox_message (seq, id, topic, payload, published_at)
			values ((select count(*) + 1 from outbox_message), ?, ?, x'', 0)`, outbox.NewID().String(), topic)
		return err
	}
	for _, topic := range []string{"a", "orders.created", "A-b_9.c"} {
		if err := insert(topic); err != nil {
			t.Errorf("%q: %v", topic, err)
		}
	}
	for _, topic := range []string{"", ".a", "a.", "a..b", "a b", "a*", ">", "a'", "a\n", "a\x00b", "ä", "\xff", strings.Repeat("a", 256)} {
		if err := insert(topic); err == nil {
			t.Errorf("%q was taken", topic)
		}
		if outbox.CheckPattern(topic) == nil && !strings.ContainsAny(topic, "*>") {
			t.Errorf("%q is a topic elsewhere", topic)
		}
	}
}

// TestReadOnlyFile: reading works, and what cannot be written says why.
func TestReadOnlyFile(t *testing.T) {
	path := migratedFile(t)
	publish(t, newStore(t, openFile(t, path), nil), outbox.Message{Topic: "a"})
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := newStore(t, db, nil)
	if d, err := s.Depths(t.Context()); err != nil || d.Ready.Messages != 1 {
		t.Errorf("depths: %+v, %v", d, err)
	}
	if page, err := s.List(t.Context(), outbox.ListQuery{}); err != nil || len(page.Messages) != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
	_, beat := s.Beat(t.Context(), outbox.RelayInfo{ID: outbox.NewID(), Lease: lease}, nil)
	_, purge := s.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}})
	inTx := s.InTx(t.Context(), func(*sql.Tx) error { return nil })
	for what, err := range map[string]error{"beat": beat, "purge": purge, "InTx": inTx} {
		if err == nil || !strings.Contains(err.Error(), "readonly") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNoDatabase: a file that is something else is refused, and left as it is.
func TestNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	content := bytes.Repeat([]byte("not a database\n"), 1000)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, openFile(t, path), nil)
	for what, err := range map[string]error{
		"migrate": s.Migrate(t.Context()), "validate": s.Validate(t.Context()), "InTx": s.InTx(t.Context(), func(*sql.Tx) error { return nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), "not a database") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
		t.Errorf("the file was changed, %v", err)
	}
}

// TestFileIsGone: a relay goes on with what it has open, and says that nobody will find it again; also when another file
// has taken its place, until the file is back.
func TestFileIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "outbox.db")
	db := openFile(t, path)
	log := &lockedBuffer{}
	s := newStore(t, db, &Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, s, outbox.Message{Topic: "a", Payload: []byte("1")})
	db.SetMaxOpenConns(1) // the one that is open
	r := newTestRelay(t, s, lease)
	r.beat(t)
	told := func(gone, back int) {
		t.Helper()
		r.beat(t)
		r.beat(t)
		if g, b := log.count("gone or was replaced"), log.count("there again"); g != gone || b != back {
			t.Errorf("told %d times that it is gone, want %d; %d times that it is back, want %d", g, gone, b, back)
		}
	}
	told(0, 0)
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	told(1, 0)
	ds := r.claim(t, 1)
	if len(ds) != 1 {
		t.Fatal("the relay has stopped")
	}
	r.settle(t, outbox.Delivered, ds...)
	if err := os.Rename(moved, dir); err != nil {
		t.Fatal(err)
	}
	told(1, 1)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	told(2, 1)
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	told(2, 2)
}

// TestDirectoryVanishes: what comes after is told as an error, with the reason, and the relay that runs does not end of it.
func TestDirectoryVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "outbox.db")
	db, err := sql.Open("sqlite", durably(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(0) // each call opens the file
	s := newStore(t, db, &Config{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink := &outboxtest.Recorder{}
	relay, err := outbox.NewRelay(s, outbox.To(sink), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	<-relay.Ready()
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := s.InTx(t.Context(), func(*sql.Tx) error { return nil }); err == nil || !strings.Contains(err.Error(), "unable to open database file") {
		t.Errorf("published into nothing: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("somebody has made the file again: %v", err)
	}
	if err := os.Rename(moved, dir); err != nil {
		t.Fatal(err)
	}
	publish(t, s, outbox.Message{Topic: "a", Payload: []byte("after")})
	until(t, "the relay delivers again", func() bool { return len(sink.Deliveries()) == 1 })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the relay has ended by %v", err)
	}
}

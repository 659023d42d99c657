package sqlitestore

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// BenchmarkPublish commits one message after another, each waiting for the disk.
func BenchmarkPublish(b *testing.B) {
	_, store := durableFile(b)
	for b.Loop() {
		publish(b, store, outbox.Message{Topic: "a", Payload: make([]byte, 512)})
	}
}

// BenchmarkLatency is the time from the return of a commit to the handler, a hundred messages a second: published by the
// relay's own Store, and by a plain transaction of other connections, as of another process.
func BenchmarkLatency(b *testing.B) {
	for name, own := range map[string]bool{"InTx": true, "other connections": false} {
		b.Run(name, func(b *testing.B) { latency(b, own) })
	}
}

func latency(b *testing.B, own bool) {
	path, store := durableFile(b)
	db, err := sql.Open("sqlite", durably(path))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	other := newStore(b, db, nil)
	if own {
		other = store
	}
	arrived := make(chan time.Time, 1)
	sink := outbox.SinkFunc(func(context.Context, *outbox.Delivery) error {
		arrived <- time.Now()
		return nil
	})
	relay, err := outbox.NewRelay(store, outbox.To(sink), nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	<-relay.Ready()
	var waits []time.Duration
	for b.Loop() {
		publish(b, other, outbox.Message{Topic: "a", Payload: make([]byte, 512)})
		committed := time.Now()
		waits = append(waits, max((<-arrived).Sub(committed), 0))
		time.Sleep(10 * time.Millisecond) // the rate
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	slices.Sort(waits)
	b.ReportMetric(0, "ns/op")
	for name, share := range map[string]int{"p50-ms": 50, "p95-ms": 95, "p99-ms": 99} {
		b.ReportMetric(float64(waits[len(waits)*share/100].Microseconds())/1000, name)
	}
}

func durably(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate"
}

// durableFile makes an outbox with synchronous=FULL.
func durableFile(b *testing.B) (path string, store *Store) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "outbox.db")
	db, err := sql.Open("sqlite", durably(path))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	store = newStore(b, db, nil)
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return path, store
}

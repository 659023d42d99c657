package pgstore

import (
	"fmt"
	"testing"

	"github.com/outboxrelay/outbox"
)

// BenchmarkPublish compares ways to publish plain messages, 512 bytes each, a call per iteration in one long
// transaction, so that only the statement counts. docs/adr/0003-publish-insert.md has the figures.
func BenchmarkPublish(b *testing.B) {
	conn := connect(b, migratedDatabase(b))
	p := newPublisher(b, &PublishConfig{Notify: NotifyOff})
	row := "insert into outbox.message (id, topic, key, payload, headers) values ($1, $2, $3, $4, $5)"
	for _, n := range []int{1, 10, 100, 1000} {
		ms := make([]outbox.Message, n)
		for i := range ms {
			ms[i] = outbox.Message{Topic: "orders.created", Key: fmt.Sprint("key-", i), Payload: make([]byte, 512), ContentType: "application/json"}
		}
		entries, err := prepare(b.Context(), ms, outbox.DefaultMaxPayload)
		if err != nil {
			b.Fatal(err)
		}
		tx := begin(b, conn)
		s := pgxSession{tx}
		for name, send := range map[string]func() error{
			"publish": func() error { _, err := p.Publish(b.Context(), tx, ms...); return err },
			"arrays": func() error {
				_, err := s.published(b.Context(), p.plain.insert, insertArgs(entries, false)...)
				return err
			},
			"function": func() error {
				_, err := s.published(b.Context(), p.plain.rows, rowsArgs(entries, false)...)
				return err
			},
			"bare insert": func() (err error) {
				for i := 0; i < n && err == nil; i++ {
					e := &entries[i]
					_, err = tx.Exec(b.Context(), row, e.ID, e.Topic, e.Key, e.Payload, e.Headers)
				}
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if err := send(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/msg")
			})
		}
		if err := tx.Rollback(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

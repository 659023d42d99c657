package natssink

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
)

// BenchmarkPublish compares the sink with the client's own asynchronous publishing, both from memory, 512 B payloads,
// the stream on files, at windows of messages under way.
func BenchmarkPublish(b *testing.B) {
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	payload := make([]byte, 512)
	for _, window := range []int{500, 2000} {
		b.Run(fmt.Sprintf("sink/window=%d", window), func(b *testing.B) {
			sink := openBench(b, server, window)
			slots := make(chan struct{}, window)
			b.ResetTimer()
			calls := make(chan error, b.N/100+2)
			n := 0
			for from := 0; from < b.N; from += 100 {
				ds := deliveries(min(100, b.N-from), payload)
				for range ds {
					slots <- struct{}{}
				}
				n++
				go func() {
					calls <- sink.DeliverBatch(context.Background(), ds, func(_ int, err error) {
						if err != nil {
							b.Error(err)
						}
						<-slots
					})
				}()
			}
			for range n {
				if err := <-calls; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
		b.Run(fmt.Sprintf("client/window=%d", window), func(b *testing.B) {
			sink := openBench(b, server, window)
			js, err := jetstream.New(sink.conn, jetstream.WithPublishAsyncMaxPending(window))
			if err != nil {
				b.Fatal(err)
			}
			ds := deliveries(1, payload)
			b.ResetTimer()
			for range b.N {
				ds[0].ID = outbox.NewID()
				m, err := sink.message(ds[0])
				if err != nil {
					b.Fatal(err)
				}
				if _, err := js.PublishMsgAsync(m); err != nil {
					b.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			js.CleanupPublisher()
		})
	}
}

func openBench(b *testing.B, server *natsdev.Server, window int) *Sink {
	sink, err := Open(server.URL(), &Config{
		Stream: "BENCH", Topics: []string{"bench"}, Create: true, MaxInFlight: window, RetryHorizon: time.Minute,
	}, nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sink.Close)
	if err := sink.js.DeleteStream(b.Context(), "BENCH"); err != nil && b.Context().Err() != nil {
		b.Fatal(err)
	}
	if err := sink.Preflight(b.Context()); err != nil {
		b.Fatal(err)
	}
	return sink
}

func deliveries(n int, payload []byte) []*outbox.Delivery {
	ds := make([]*outbox.Delivery, n)
	for i := range ds {
		ds[i] = &outbox.Delivery{
			Message: outbox.Message{ID: outbox.NewID(), Topic: "bench", Payload: payload, Headers: map[string]string{"content-type": "application/json"}},
			Seq:     int64(i + 1), PublishedAt: time.Now(),
		}
	}
	return ds
}

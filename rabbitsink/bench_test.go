package rabbitsink

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
)

// BenchmarkPublish compares the sink with the client's own publishing and deferred confirmations, both from memory,
// 512 B payloads, persistent, mandatory, to a durable queue, at windows of messages under way.
func BenchmarkPublish(b *testing.B) {
	server := rabbit.Server(b)
	const name = "bench"
	payload := make([]byte, 512)
	for _, window := range []int{500, 2000} {
		for _, who := range []string{"client", "sink"} {
			b.Run(fmt.Sprintf("%s/window=%d", who, window), func(b *testing.B) {
				if err := server.Bind(name, name, "#", nil); err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := server.Delete(name, name); err != nil {
						b.Error(err)
					}
				}()
				sink, err := Open(server.URL(), &Config{Exchange: name, MaxInFlight: window})
				if err != nil {
					b.Fatal(err)
				}
				defer sink.Close()
				if err := sink.Ping(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				if who == "sink" {
					benchSink(b, sink, window, payload)
				} else {
					benchClient(b, sink, server.URL(), window, payload)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}

func benchSink(b *testing.B, sink *Sink, window int, payload []byte) {
	slots := make(chan struct{}, window)
	calls := make(chan error, b.N/100+2)
	n := 0
	for from := 0; from < b.N; from += 100 {
		ds := benchDeliveries(min(100, b.N-from), payload)
		for range ds {
			slots <- struct{}{}
		}
		n++
		go func() {
			calls <- sink.DeliverBatch(b.Context(), ds, func(_ int, err error) {
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
}

func benchClient(b *testing.B, sink *Sink, url string, window int, payload []byte) {
	conn, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	pending := make(chan *amqp.DeferredConfirmation, window)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range pending {
			if !c.Wait() {
				b.Error("refused")
			}
		}
	}()
	now := time.Now()
	for range b.N {
		m, key, err := sink.message(benchDeliveries(1, payload)[0], now)
		if err != nil {
			b.Fatal(err)
		}
		c, err := ch.PublishWithDeferredConfirm(sink.cfg.Exchange, key, true, false, m)
		if err != nil {
			b.Fatal(err)
		}
		pending <- c
	}
	close(pending)
	<-done
}

func benchDeliveries(n int, payload []byte) []*outbox.Delivery {
	ds := make([]*outbox.Delivery, n)
	for i := range ds {
		ds[i] = &outbox.Delivery{
			Message: outbox.Message{ID: outbox.NewID(), Topic: "bench", Payload: payload, ContentType: "application/json"},
			Seq:     int64(i + 1), PublishedAt: time.Now(),
		}
	}
	return ds
}

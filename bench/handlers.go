package main

import (
	"context"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/bench"
)

// Handlers that take their time: at most handlerSlots per handlerTime can be delivered.
const (
	handlerSlots = 50
	handlerTime  = 5 * time.Millisecond
)

func handlersScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "handlers", Rate: "msg/s",
		About: "an eighth of a backlog to handlers of 5 ms in 50 slots, 10,000 msg/s at best",
	}
	for _, c := range []keyed{{"no keys", 0}, {"1000 keys", 1000}} {
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
			s, err := b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows / 8, Keys: c.keys}, Slots: handlerSlots, Handler: slowHandler})
			possible := handlerSlots / handlerTime.Seconds()
			s.More = append([]bench.Figure{{Name: "of possible", Value: s.Rate / possible}}, s.More...)
			return s, err
		}})
	}
	return sc
}

// slowHandler waits as one does that calls another service.
func slowHandler(ctx context.Context, _ *outbox.Delivery) error { return bench.Pause(ctx, handlerTime) }

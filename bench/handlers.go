package main

import (
	"context"
	"time"

	"github.com/outboxrelay/outbox"
)

// Handlers that take their time: at most handlerSlots per handlerTime can be delivered.
const (
	handlerSlots = 50
	handlerTime  = 5 * time.Millisecond
)

func handlersScenario() scenario {
	sc := scenario{
		name: "handlers", rate: "msg/s",
		about: "an eighth of a backlog to handlers of 5 ms in 50 slots, 10,000 msg/s at best",
	}
	for _, c := range []struct {
		name string
		keys int
	}{{"no keys", 0}, {"1000 keys", 1000}} {
		sc.cases = append(sc.cases, benchCase{name: c.name, run: func(ctx context.Context, b *bench) (sample, error) {
			s, err := b.drain(ctx, drainRun{rows: b.opt.rows / 8, keys: c.keys, relays: 1, slots: handlerSlots, sink: slowHandler})
			possible := handlerSlots / handlerTime.Seconds()
			s.more = append([]figure{{"of possible", s.rate / possible}}, s.more...)
			return s, err
		}})
	}
	return sc
}

// slowHandler waits as one does that calls another service.
func slowHandler(ctx context.Context, _ *outbox.Delivery) error {
	timer := time.NewTimer(handlerTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

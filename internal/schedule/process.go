package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/internal/history/record"
)

// process is a relay as a process of its own, in play.
type process struct {
	name  string
	store *mortal
	log   *history.Log
	relay *outbox.Relay
	id    atomic.Pointer[outbox.ID]
	stop  context.CancelFunc
	done  chan struct{}
}

// start runs a relay; nil if that failed, which is noted.
func (p *player) start(ctx context.Context) *process {
	p.started++
	proc := &process{name: fmt.Sprintf("relay-%d", p.started), done: make(chan struct{})}
	store, closeStore, err := p.box.Open(ctx)
	if err != nil {
		p.fail(fmt.Errorf("open a store: %w", err))
		return nil
	}
	proc.store, proc.log = &mortal{Store: store}, p.memory.Log(proc.name)
	proc.relay, err = outbox.NewRelay(record.NewStore(proc.store, proc.log), p.routes(proc.log), p.config(proc))
	if err != nil {
		closeStore()
		p.fail(err)
		return nil
	}
	// A relay's life ends with stop, not with the schedule's context.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	proc.stop = stop
	p.running.Go(func() {
		defer close(proc.done)
		defer closeStore()
		err := proc.relay.Run(run)
		if err != nil && !proc.store.dead.Load() {
			p.fail(fmt.Errorf("%s: %w", proc.name, err))
		}
		if id := proc.id.Load(); id != nil {
			p.note(proc.log, history.Event{Kind: history.RelayStopped, Relay: id.String()})
		}
	})
	return proc
}

func (p *player) config(proc *process) *outbox.Config {
	return &outbox.Config{
		Lease: time.Second, PollInterval: 100 * time.Millisecond, MaxAttempts: 3, Rules: p.rules(), Logger: slog.New(slog.DiscardHandler),
		Retry: outbox.RetryPolicy{Base: 10 * time.Millisecond, Max: 80 * time.Millisecond},
		Hooks: outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventBeat {
				proc.id.Store(&e.Relay)
			}
		}},
	}
}

// kill ends the process without a word to the store.
func (p *player) kill(proc *process) {
	p.memory.Kill(proc.name)
	proc.store.dead.Store(true)
	proc.relay.Abort()
	proc.stop()
}

func (p *player) rules() []outbox.Rule {
	var rules []outbox.Rule
	for name, order := range relayOrders {
		rules = append(rules, outbox.Rule{Topics: []string{name + ".>"}, Order: order})
	}
	return rules
}

// relayOrders are the orders that are not the default, as the relay names them.
var relayOrders = map[string]outbox.Order{"block": outbox.OrderBlock, "park": outbox.OrderPark, "none": outbox.OrderNone}

// routes are a Mux for each destination, with a handler for each topic.
func (p *player) routes(log *history.Log) []outbox.Route {
	var routes []outbox.Route
	for i := range p.plan.Destinations {
		mux := outbox.NewMux()
		for _, topic := range topics {
			if p.plan.Deal[topic] == i {
				mux.Handle(topic, record.NewSink(outbox.SinkFunc(p.handle), destination(i), log).Deliver)
			}
		}
		if patterns := mux.Topics(); len(patterns) > 0 {
			routes = append(routes, outbox.Route{Name: destination(i), Topics: patterns, Sink: mux, Slots: p.plan.Slots})
		}
	}
	return routes
}

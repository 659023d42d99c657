package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// ObservePublish publishes by publish, between the hooks of publishing. It is for implementations of a publisher: ms is
// left alone, and publish gets what the hooks made of a copy.
func (h *Hooks) ObservePublish(ctx context.Context, ms []Message,
	publish func(context.Context, []Message) ([]Receipt, error)) (receipts []Receipt, err error) {
	if h.PublishStart != nil && len(ms) > 0 {
		given := ms
		ms = slices.Clone(ms)
		if !guard(slog.Default(), "PublishStart", func() { ctx = orContext(h.PublishStart(ctx, ms), ctx) }) {
			ms = given
		}
	}
	receipts, err = publish(ctx, ms)
	if h.PublishEnd != nil && len(ms) > 0 {
		guard(slog.Default(), "PublishEnd", func() { h.PublishEnd(ctx, receipts, err) })
	}
	return receipts, err
}

// ObservesPublish reports whether there is a hook of publishing.
func (h *Hooks) ObservesPublish() bool { return h.PublishStart != nil || h.PublishEnd != nil }

// guard calls a hook and reports whether it returned. Its panic is the hook's: what is observed goes on.
func guard(log *slog.Logger, hook string, call func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("hook panicked", "hook", hook, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	call()
	return true
}

// deliverStart tells that an attempt begins, and returns its context.
func (l *lane) deliverStart(ctx context.Context, d *Delivery) context.Context {
	l.r.event(Event{Kind: EventDelivering, Destination: l.name, Delivery: d})
	if start := l.r.cfg.Hooks.DeliverStart; start != nil {
		guard(l.r.log, "DeliverStart", func() { ctx = orContext(start(ctx, d), ctx) })
	}
	return ctx
}

// deliverEnd tells how an attempt ended.
func (l *lane) deliverEnd(ctx context.Context, d *Delivery, o Outcome, err error, took time.Duration, now time.Time) {
	if end := l.r.cfg.Hooks.DeliverEnd; end != nil {
		r := Result{Destination: l.name, Kind: o.Kind, Err: err, Class: o.Class, Took: took, Age: l.r.ageOf(d, now)}
		guard(l.r.log, "DeliverEnd", func() { end(ctx, d, r) })
	}
}

// batchStart tells that a batch begins, and returns its context.
func (l *lane) batchStart(ctx context.Context, ds []*Delivery) context.Context {
	if start := l.r.cfg.Hooks.BatchStart; start != nil {
		guard(l.r.log, "BatchStart", func() { ctx = orContext(start(ctx, l.name, ds), ctx) })
	}
	return ctx
}

func (l *lane) batchEnd(ctx context.Context, err error) {
	if end := l.r.cfg.Hooks.BatchEnd; end != nil {
		guard(l.r.log, "BatchEnd", func() { end(ctx, err) })
	}
}

// relayStart tells what the relay delivers.
func (r *running) relayStart() {
	if start := r.cfg.Hooks.RelayStart; start != nil {
		guard(r.log, "RelayStart", func() { start(r.base, r.laneInfos()) })
	}
}

// event tells the hook, with this relay's current id.
func (r *running) event(e Event) {
	if r.cfg.Hooks.Event == nil {
		return
	}
	if s := r.session.Load(); s != nil && e.Relay.IsZero() {
		e.Relay = s.id
	}
	guard(r.log, "Event", func() { r.cfg.Hooks.Event(r.base, e) })
}

// ageOf is the time since a message was published, by the database's clock as the last heartbeat found it.
func (r *running) ageOf(d *Delivery, now time.Time) time.Duration {
	if d.PublishedAt.IsZero() {
		return 0
	}
	return max(now.Add(time.Duration(r.clockOffset.Load())).Sub(d.PublishedAt), 0)
}

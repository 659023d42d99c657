package outbox

import "context"

// JoinHooks makes several hooks one: they are called in order, the ends in reverse order, each with the context of all
// that were called before.
func JoinHooks(list ...Hooks) Hooks {
	joined := Hooks{}
	for _, h := range list {
		joined = joined.with(h)
	}
	return joined
}

// with calls h inside the hooks that are there.
func (outer Hooks) with(h Hooks) Hooks {
	return Hooks{
		PublishStart: joinStarts(outer.PublishStart, h.PublishStart),
		PublishEnd:   joinEnds2(h.PublishEnd, outer.PublishEnd),
		DeliverStart: joinStarts(outer.DeliverStart, h.DeliverStart),
		DeliverEnd:   joinEnds2(h.DeliverEnd, outer.DeliverEnd),
		BatchStart:   joinBatchStarts(outer.BatchStart, h.BatchStart),
		BatchEnd:     joinEnds(h.BatchEnd, outer.BatchEnd),
		RelayStart:   joinEnds(outer.RelayStart, h.RelayStart),
		Sampled:      joinEnds(outer.Sampled, h.Sampled),
		Streaming:    joinEnds(outer.Streaming, h.Streaming),
		Event:        joinEnds(outer.Event, h.Event),
	}
}

func joinStarts[A any](first, second func(context.Context, A) context.Context) func(context.Context, A) context.Context {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, a A) context.Context { return second(orContext(first(ctx, a), ctx), a) }
}

func joinBatchStarts(first, second func(context.Context, string, []*Delivery) context.Context) func(context.Context, string, []*Delivery) context.Context {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, destination string, ds []*Delivery) context.Context {
		return second(orContext(first(ctx, destination, ds), ctx), destination, ds)
	}
}

func joinEnds[A any](first, second func(context.Context, A)) func(context.Context, A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, a A) {
		defer second(ctx, a)
		first(ctx, a)
	}
}

func joinEnds2[A, B any](first, second func(context.Context, A, B)) func(context.Context, A, B) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, a A, b B) {
		defer second(ctx, a, b)
		first(ctx, a, b)
	}
}

// orContext is what a hook returned, or what it was given if it returned nothing.
func orContext(got, given context.Context) context.Context {
	if got == nil {
		return given
	}
	return got
}

package schedule

import (
	"context"
	"fmt"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// operate does what an operator does. Messages are changed one by one, by their ids, so that the history knows which.
func (p *player) operate(ctx context.Context, o Operation) {
	switch o.Verb {
	case Pause:
		p.pause(ctx, p.pauseOf(o))
	case Resume:
		p.resume(ctx, p.pauseOf(o))
	default:
		for _, id := range p.fates.matching(o.Topic, o.Key) {
			p.change(ctx, o.Verb, id)
		}
	}
}

func (p *player) pauseOf(o Operation) outbox.Pause {
	if o.Topic != "" {
		return outbox.Pause{Topic: o.Topic}
	}
	return outbox.Pause{Destination: destination(o.Destination)}
}

func (p *player) pause(ctx context.Context, pause outbox.Pause) {
	if _, err := p.box.Operator().Pause(ctx, pause); err != nil {
		p.fail(fmt.Errorf("pause %+v: %w", pause, err))
	}
	p.pauses = append(p.pauses, pause)
}

func (p *player) resume(ctx context.Context, pause outbox.Pause) {
	if _, err := p.box.Operator().Resume(ctx, pause); err != nil {
		p.fail(fmt.Errorf("resume %+v: %w", pause, err))
	}
}

func (p *player) resumeAll(ctx context.Context) {
	for _, pause := range p.pauses {
		p.resume(ctx, pause)
	}
}

// change changes one message, if it is in a state in which it can be.
func (p *player) change(ctx context.Context, verb Verb, id outbox.ID) {
	operator := p.box.Operator()
	do, kind := operator.Redrive, history.Redriven
	switch verb {
	case Retry:
		do, kind = operator.Retry, ""
	case Discard:
		do, kind = operator.Discard, history.Discarded
	}
	since := p.operator.Now()
	report, err := do(ctx, outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Actor: "schedule", Reason: "as planned"})
	if err != nil {
		p.fail(fmt.Errorf("%s %s: %w", verb, id, err))
		return
	}
	if report.Changed > 0 && kind != "" {
		p.note(p.operator, history.Event{Kind: kind, Message: id.String(), Since: since})
	}
}

// unpark redrives what is dead and holds its key.
func (p *player) unpark(ctx context.Context) {
	for _, topic := range topics {
		if orderOf(topic) != history.Park {
			continue
		}
		for _, id := range p.fates.matching(topic, "") {
			p.change(ctx, Redrive, id)
		}
	}
}

package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// publish publishes in a transaction that ends later, while the schedule goes on.
func (p *player) publish(ctx context.Context, s Step) {
	tx, err := p.box.Begin(ctx)
	if err != nil {
		p.fail(fmt.Errorf("begin: %w", err))
		return
	}
	before := time.Now().UnixNano() // without the log's nanoseconds more: the earliest that it can be
	messages := make([]outbox.Message, len(s.Messages))
	for i, m := range s.Messages {
		messages[i] = outbox.Message{Topic: m.Topic, Key: m.Key, Payload: fmt.Append(nil, i, m), Delay: m.Delay, TTL: m.TTL}
	}
	receipts, err := tx.Publish(ctx, messages...)
	if err != nil {
		p.fail(fmt.Errorf("publish: %w", err))
		_ = tx.Rollback(ctx)
		return
	}
	for i, r := range receipts {
		messages[i].ID = r.ID
		p.fates.set(r.ID, s.Messages[i])
	}
	p.transactions.Go(func() {
		time.Sleep(s.Hold)
		p.end(ctx, tx, s.Rollback, messages, before)
	})
}

func (p *player) end(ctx context.Context, tx Tx, rollback bool, messages []outbox.Message, before int64) {
	p.tell(history.Publishing, messages, before)
	end, kind := tx.Commit, history.Committed
	if rollback {
		end, kind = tx.Rollback, history.RolledBack
	}
	if err := end(ctx); err != nil {
		p.fail(fmt.Errorf("%s: %w", kind, err))
		return
	}
	p.tell(kind, messages, before)
}

// tell notes what becomes of messages that were published after a time.
func (p *player) tell(kind history.Kind, ms []outbox.Message, after int64) {
	events := make([]history.Event, len(ms))
	for i, m := range ms {
		events[i] = history.Event{Kind: kind, Message: m.ID.String(), Deferred: m.Delay > 0}
		if kind == history.Publishing {
			events[i].Topic, events[i].Key, events[i].Payload = m.Topic, m.Key, history.Hash(m.Payload)
			if m.TTL > 0 {
				events[i].Until = after + int64(m.TTL)
			}
		}
	}
	p.note(p.operator, events...)
}

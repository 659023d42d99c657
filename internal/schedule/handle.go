package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// fates are what the deliveries of each message come to.
type fates struct {
	mu       sync.Mutex
	messages map[outbox.ID]Message
	ids      []outbox.ID // in the order of publishing
}

func (f *fates) set(id outbox.ID, m Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages[id] = m
	f.ids = append(f.ids, id)
}

// matching lists the messages of a topic and a key; empty: of any.
func (f *fates) matching(topic, key string) (ids []outbox.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.ids {
		if m := f.messages[id]; (topic == "" || m.Topic == topic) && (key == "" || m.Key == key) {
			ids = append(ids, id)
		}
	}
	return ids
}

// next takes the fate of the message's next delivery; "" is that it is accepted.
func (f *fates) next(id outbox.ID) (fate Fate, work time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.messages[id]
	if len(m.Fates) > 0 {
		fate, m.Fates = m.Fates[0], m.Fates[1:]
		f.messages[id] = m
	}
	return fate, m.Work
}

var errPlanned = errors.New("as planned")

// handle is the handler of all topics.
func (p *player) handle(ctx context.Context, d *outbox.Delivery) error {
	fate, work := p.fates.next(d.ID)
	if work > 0 {
		timer := time.NewTimer(work)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch fate {
	case Fails:
		return errPlanned
	case FailsForGood:
		return outbox.Permanent(errPlanned)
	case FailsAWhile:
		return outbox.RetryAfter(30*time.Millisecond, errPlanned)
	case IsAway:
		return outbox.Unavailable(errPlanned)
	case IsDropped:
		return outbox.Drop("as planned")
	case Panics:
		panic(errPlanned)
	}
	return nil
}

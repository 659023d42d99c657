package rabbitsink

import (
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
)

// channel is an AMQP channel in confirm mode, and what was published to it and not confirmed yet.
//
// Confirmations are read from the client's deferred confirmations and not from its listener, which is given them in
// order and makes one out of a refusal that came out of order when later messages are confirmed together
// (TestRefused).
//
// A returned message is confirmed too, right after its return. The client hands the return over before it looks at the
// confirmation, to a buffer with room for all that may be on their way; one goroutine, track, reads both, and the
// buffer to its end before it believes a confirmation (TestUnroutable).
//
// A return has no delivery tag, only the message's own properties, so it is matched by the message's id: if the same
// message is on its way more than once, which happens when a call gave up before, all of them count as returned, since
// one of them is. Nothing is lost by that, at worst a message arrives again (TestReturnedTwins).
type channel struct {
	link    *link
	ch      *amqp.Channel
	broken  func(error) // is told why the channel ended
	closes  chan *amqp.Error
	returns chan amqp.Return
	wake    chan struct{} // something was published

	closed     chan struct{}
	err        error         // set before closed is closed
	maxMessage int64         // likewise: what RabbitMQ said about a message that was too large; 0: nothing
	settled    chan struct{} // closed when all that was published has its result

	mu        sync.Mutex
	pending   []*publish               // in the order of delivery tags
	byID      map[outbox.ID][]*publish // not confirmed
	isSettled bool
}

// publish is a message on its way.
type publish struct {
	call     *call
	index    int
	id       outbox.ID
	confirm  *amqp.DeferredConfirmation
	returned string // why RabbitMQ returned it
}

// newChannel opens a channel for at most so many messages at a time, give or take as many that nobody waits for.
func (l *link) newChannel(messages int) (*channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return &channel{
		link: l, ch: ch, closes: ch.NotifyClose(make(chan *amqp.Error, 1)), returns: ch.NotifyReturn(make(chan amqp.Return, 2*messages)),
		wake: make(chan struct{}, 1), closed: make(chan struct{}), settled: make(chan struct{}), byID: map[outbox.ID][]*publish{},
	}, nil
}

// start serves the channel until it is closed; broken is told why.
func (c *channel) start(broken func(error)) {
	c.broken = broken
	c.link.work.Go(c.track)
}

func (c *channel) note(r *amqp.Return) {
	id, err := outbox.ParseID(r.MessageId)
	if err != nil {
		return // not ours
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.byID[id] {
		p.returned = fmt.Sprintf("no queue is bound to exchange %s for routing key %s (RabbitMQ says: %s, %d)", r.Exchange, r.RoutingKey, r.ReplyText, r.ReplyCode)
	}
}

// publish sends a message; its result comes by way of its call. An error is the channel's.
func (c *channel) publish(p *publish, key string, m amqp.Publishing) error {
	c.mu.Lock()
	c.byID[p.id] = append(c.byID[p.id], p)
	c.mu.Unlock()
	cfg := &c.link.sink.cfg
	confirm, err := c.ch.PublishWithDeferredConfirm(cfg.Exchange, key, !cfg.DisableMandatory, false, m)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.isSettled {
		err = amqp.ErrClosed
	}
	if err != nil {
		c.forget(p)
		return err
	}
	p.confirm = confirm
	c.pending = append(c.pending, p)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// forget takes p out of byID. The lock is held.
func (c *channel) forget(p *publish) {
	twins := c.byID[p.id]
	for i, other := range twins {
		if other == p {
			twins = append(twins[:i], twins[i+1:]...)
			break
		}
	}
	if len(twins) == 0 {
		delete(c.byID, p.id)
	} else {
		c.byID[p.id] = twins
	}
}

// track gives each message its result as soon as it is known. Usually they come in order; what overtook the oldest is
// found by a look at all of them when the oldest takes long, whatever is published meanwhile.
func (c *channel) track() {
	const long = 5 * time.Millisecond
	ticker := time.NewTicker(long)
	defer ticker.Stop()
	closes := c.closes
	var waited <-chan struct{} // since the ticker's reset
	for {
		confirmed, some := c.oldest()
		switch {
		case some && confirmed != waited:
			ticker.Reset(long)
		case some:
		case c.isEnded() && c.finish():
			return
		default:
			ticker.Stop()
		}
		waited = confirmed
		select {
		case <-confirmed:
			c.settle(false)
		case <-ticker.C:
			c.settle(true)
		case <-c.wake:
		case err := <-closes:
			c.end(err)
		}
		if c.isEnded() {
			closes = nil
		}
	}
}

// oldest is the confirmation of the oldest message that has none yet.
func (c *channel) oldest() (confirmed <-chan struct{}, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil, false
	}
	return c.pending[0].confirm.Done(), true
}

func (c *channel) isEnded() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// finish refuses what would be published from now on; false: something was in the meantime.
func (c *channel) finish() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		return false
	}
	c.isSettled = true
	close(c.settled)
	return true
}

// end notes why the channel was closed.
func (c *channel) end(err *amqp.Error) {
	c.err = explain(lossOf(err), &c.link.sink.cfg)
	if size, most, ok := tooLarge(err); ok && size > most {
		c.maxMessage = most
		c.link.sink.maxMessage.Store(most)
	}
	c.broken(c.err)
	if c.link.isLost() {
		c.err = c.link.lostErr
	}
	close(c.closed)
}

// settle gives results to the oldest messages that have one, or to all that have.
func (c *channel) settle(all bool) {
	c.mu.Lock()
	var known []*publish
	rest := c.pending[:0:0]
	for i, p := range c.pending {
		if isDone(p.confirm) {
			known = append(known, p)
			continue
		}
		if !all {
			rest = c.pending[i:]
			break
		}
		rest = append(rest, p)
	}
	c.pending = rest
	c.mu.Unlock()
	c.noteReturns() // before the confirmations are believed
	for _, p := range known {
		c.judge(p)
	}
}

// noteReturns reads all that was returned so far.
func (c *channel) noteReturns() {
	for {
		select {
		case r, open := <-c.returns:
			if !open {
				return
			}
			c.note(&r)
		default:
			return
		}
	}
}

func isDone(d *amqp.DeferredConfirmation) bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// judge gives a message its result. The client also calls those refused that were unconfirmed when the channel ended.
func (c *channel) judge(p *publish) {
	c.mu.Lock()
	c.forget(p)
	c.mu.Unlock()
	switch {
	case p.returned != "":
		p.call.resolve(p.index, fmt.Errorf("not delivered: %s", p.returned))
	case p.confirm.Acked():
		p.call.resolve(p.index, nil)
	case c.ch.IsClosed():
		if !c.isEnded() {
			c.end(<-c.closes) // the client has told it before
		}
		p.call.resolve(p.index, c.lossFor(p))
	default:
		p.call.refuse(p.index)
	}
}

// lossFor is what the end of the channel means for a message: it is the reason, or was next to it.
func (c *channel) lossFor(p *publish) error {
	size := int64(len(p.call.ds[p.index].Payload))
	if most := c.maxMessage; most > 0 && size > most {
		return outbox.Permanent(fmt.Errorf("%w: %d bytes, RabbitMQ takes %d (max_message_size)", errTooLarge, size, most))
	}
	return outbox.Unavailable(c.err)
}

package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
)

// largeMessage is from where on a message gets a channel of its own: RabbitMQ closes the channel of one that is too
// large for it, and says how large it may be only then.
const largeMessage = 4 << 20

// call is one DeliverBatch under way. Each message is resolved once, by whoever comes first: its confirmation, an
// error of publishing it, a lost link, or the end of the call.
type call struct {
	sink    *Sink
	ds      []*outbox.Delivery
	report  func(i int, err error)
	done    chan struct{} // closed when every message is resolved
	written chan struct{} // closed when the writer has published all

	mu        sync.Mutex
	states    []state
	left      int            // not resolved
	confirmed int            // delivered
	refused   []int          // by RabbitMQ, and not reported yet
	reporting sync.WaitGroup // resolved, and not reported
}

type state uint8

const (
	unsent state = iota
	sent         // has a slot
	resolved
)

// DeliverBatch publishes the messages and reports each as soon as RabbitMQ has confirmed it.
func (s *Sink) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	if len(ds) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l, err := s.connected(ctx, false)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return outbox.Unavailable(err)
	}
	c := &call{
		sink: s, ds: ds, report: report, done: make(chan struct{}), written: make(chan struct{}),
		states: make([]state, len(ds)), left: len(ds),
	}
	blocked := l.blocking()
	select {
	case <-blocked:
		return outbox.Unavailable(l.errBlocked())
	default:
	}
	select {
	case l.calls <- c:
		return c.await(ctx, l, blocked)
	case <-blocked:
		return outbox.Unavailable(l.errBlocked())
	case <-l.lost:
		return outbox.Unavailable(l.lostErr)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write publishes the calls' messages, one call after the other. It is a goroutine of the link's, since a write may
// block and a call must not.
func (l *link) write() {
	for {
		select {
		case c := <-l.calls:
			if err := l.writeCall(c); err != nil {
				l.failed(err)
				return
			}
		case <-l.lost:
			return
		}
	}
}

func (l *link) writeCall(c *call) error {
	l.transport.hold()
	now := time.Now()
	for i, d := range c.ds {
		m, key, err := l.sink.message(d, now)
		if err != nil {
			c.resolve(i, err)
			continue
		}
		if !l.takeSlot(c, i) {
			continue
		}
		p := &publish{call: c, index: i, id: d.ID}
		if len(m.Body) > l.sink.alone {
			l.work.Go(func() { l.publishAlone(p, key, m) })
			continue
		}
		if err := l.main.publish(p, key, m); err != nil {
			return err
		}
	}
	if err := l.transport.release(); err != nil {
		return err
	}
	close(c.written)
	return nil
}

// failed ends the link after an error of the client's, whose reason the channel's end may tell better.
func (l *link) failed(err error) {
	_ = l.transport.release() // what the client says at the end must not wait
	if errors.Is(err, amqp.ErrClosed) {
		<-l.main.closed // the reason comes from there, and soon
	}
	l.fail(l.notConnected(explain(err, &l.sink.cfg)))
}

// takeSlot waits for room for a message; false: it is resolved already, or the link is lost.
func (l *link) takeSlot(c *call, i int) bool {
	select {
	case l.sink.slots <- struct{}{}:
	default:
		_ = l.transport.release() // the next write fails too
		select {
		case l.sink.slots <- struct{}{}:
		case <-l.lost:
			return false
		}
		l.transport.hold()
	}
	c.mu.Lock()
	took := c.states[i] == unsent
	if took {
		c.states[i] = sent
	}
	c.mu.Unlock()
	if !took {
		<-l.sink.slots
	}
	return took
}

// publishAlone publishes a message to a channel of its own and waits for the result.
func (l *link) publishAlone(p *publish, key string, m amqp.Publishing) {
	ch, err := l.newChannel(1)
	if err == nil {
		ch.start(func(error) {})
		err = ch.publish(p, key, m)
	}
	if err != nil {
		p.call.resolve(p.index, outbox.Unavailable(l.notConnected(explain(err, &l.sink.cfg))))
	}
	if ch == nil {
		return
	}
	if err == nil {
		select {
		case <-p.confirm.Done():
		case <-l.lost:
		}
	}
	_ = ch.ch.Close() // fails if RabbitMQ has closed it
	<-ch.settled
}

// take makes the caller the one who resolves the message.
func (c *call) take(i int) (took, hadSlot bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.states[i]
	if was == resolved {
		return false, false
	}
	c.states[i] = resolved
	c.reporting.Add(1)
	return true, was == sent
}

// resolve reports a message's result, if nobody else does.
func (c *call) resolve(i int, err error) {
	took, hadSlot := c.take(i)
	if !took {
		return
	}
	if hadSlot {
		<-c.sink.slots
	}
	c.report(i, err)
	c.conclude(func() {
		if err == nil {
			c.confirmed++
		}
	})
}

// refuse notes that RabbitMQ refused a message. What that means depends on the others: see judgeRefused.
func (c *call) refuse(i int) {
	took, hadSlot := c.take(i)
	if !took {
		return
	}
	if hadSlot {
		<-c.sink.slots
	}
	c.conclude(func() { c.refused = append(c.refused, i) })
}

func (c *call) conclude(note func()) {
	c.mu.Lock()
	note()
	c.left--
	if c.left == 0 {
		close(c.done)
	}
	c.mu.Unlock()
	c.reporting.Done()
}

// await waits for the results. Its error is that of the messages which have none.
func (c *call) await(ctx context.Context, l *link, blocked <-chan struct{}) error {
	written := c.written
	var timeout <-chan time.Time
	for {
		select {
		case <-c.done:
			c.abandon()
			return nil
		case <-ctx.Done():
			c.abandon()
			return context.Cause(ctx)
		case <-blocked:
			c.abandon()
			return outbox.Unavailable(l.errBlocked())
		case <-l.lost:
			c.awaitSettled(ctx, l)
			c.abandon()
			return outbox.Unavailable(l.lostErr)
		case <-written:
			written = nil
			timer := time.NewTimer(c.sink.cfg.ConfirmTimeout)
			defer timer.Stop()
			timeout = timer.C
		case <-timeout:
			silent := c.abandon()
			if silent == 0 {
				return nil
			}
			return l.silence(ctx, silent, len(c.ds))
		}
	}
}

// awaitSettled lets the channel give the results that it has, so that less is sent again.
func (c *call) awaitSettled(ctx context.Context, l *link) {
	select {
	case <-l.main.settled:
	case <-ctx.Done():
	}
}

// abandon takes the messages that have no result, returns how many, waits for those that are being reported and
// reports the refused ones.
func (c *call) abandon() (n int) {
	c.mu.Lock()
	slots := 0
	for i, s := range c.states {
		if s != resolved {
			n++
		}
		if s == sent {
			slots++
		}
		c.states[i] = resolved
	}
	c.mu.Unlock()
	for range slots {
		<-c.sink.slots
	}
	c.reporting.Wait()
	c.judgeRefused()
	return n
}

// judgeRefused reports what RabbitMQ refused: a queue could not take it, as one that is full and set to reject. If the
// others of the call were taken, it is the messages' bad luck and a failed attempt; else the destination's state.
func (c *call) judgeRefused() {
	err := errors.New("RabbitMQ refused the message (basic.nack): a queue could not take it, is full for example")
	if c.confirmed == 0 {
		err = outbox.Unavailable(err)
	}
	for _, i := range c.refused {
		c.report(i, err)
	}
	c.refused = nil
}

// silence says whose fault it is that messages were not confirmed. RabbitMQ is asked; if it answers, and some were
// confirmed or there was only one, it is the messages' own.
func (l *link) silence(ctx context.Context, silent, all int) error {
	err := fmt.Errorf("no confirmation within %v", l.sink.cfg.ConfirmTimeout)
	if cause := l.ask(ctx); cause != nil {
		return outbox.Unavailable(fmt.Errorf("%w: %w", err, cause))
	}
	if l.main.unconfirmed() > 2*l.sink.cfg.MaxInFlight { // nobody waits for them any more
		l.fail(l.notConnected(err))
	}
	if silent == all && all > 1 {
		return outbox.Unavailable(err)
	}
	return fmt.Errorf("%w, though RabbitMQ answers: %w", err, outbox.ErrHandlerTimeout)
}

func (c *channel) unconfirmed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

var sizes = regexp.MustCompile(`message size (\d+) (?:is )?larger than (?:configured )?max size (\d+)`)

// tooLarge reads the sizes from what RabbitMQ says when it closes a channel.
func tooLarge(err *amqp.Error) (size, most int64, ok bool) {
	if err == nil || err.Code != amqp.PreconditionFailed {
		return 0, 0, false
	}
	found := sizes.FindStringSubmatch(err.Reason)
	if found == nil {
		return 0, 0, false
	}
	size, err1 := strconv.ParseInt(found[1], 10, 64)
	most, err2 := strconv.ParseInt(found[2], 10, 64)
	return size, most, err1 == nil && err2 == nil
}

func contains(e *amqp.Error, text string) bool { return strings.Contains(e.Reason, text) }

package natssink

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// call is one DeliverBatch under way. Each message is resolved once, by whoever comes first: its answer, an error of
// publishing it, a lost connection, or the end of the call.
type call struct {
	sink   *Sink
	id     uint64
	ds     []*outbox.Delivery
	report func(i int, err error)
	done   chan struct{} // closed when every message is resolved and reported

	mu        sync.Mutex
	waits     []bool         // published, and not resolved
	left      int            // not reported
	reporting sync.WaitGroup // resolved, and not reported
}

// DeliverBatch publishes the messages and reports each as soon as the stream has answered.
func (s *Sink) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	if len(ds) == 0 {
		return nil
	}
	if !s.conn.IsConnected() {
		return outbox.Unavailable(s.notConnected())
	}
	c := &call{sink: s, ds: ds, report: report, done: make(chan struct{}), waits: make([]bool, len(ds)), left: len(ds)}
	if err := s.acks.begin(c); err != nil {
		return err
	}
	defer s.acks.end(c)
	for i, d := range ds {
		if err := c.publish(ctx, i, d); err != nil {
			c.abandon()
			return err
		}
	}
	return c.await(ctx)
}

// publish sends one message; an error is the call's.
func (c *call) publish(ctx context.Context, i int, d *outbox.Delivery) error {
	s := c.sink
	m, err := s.message(d)
	if err != nil {
		c.finish(i, err)
		return nil
	}
	select {
	case s.acks.slots <- struct{}{}:
	default:
		select {
		case s.acks.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	m.Reply = s.acks.reply(c, i)
	c.mu.Lock()
	c.waits[i] = true
	c.mu.Unlock()
	if err := s.conn.PublishMsg(m); err != nil {
		c.resolve(i, s.judgePublish(err))
	}
	return nil
}

// take makes the caller the one who resolves the message.
func (c *call) take(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.waits[i]
	c.waits[i] = false
	if took {
		c.reporting.Add(1)
	}
	return took
}

// resolve reports a published message's result, if nobody else does.
func (c *call) resolve(i int, err error) {
	if c.take(i) {
		<-c.sink.acks.slots
		c.finish(i, err)
		c.reporting.Done()
	}
}

func (c *call) finish(i int, err error) {
	c.report(i, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// await waits for the answers. Its error is that of the messages which have none.
func (c *call) await(ctx context.Context) error {
	timer := time.NewTimer(c.sink.cfg.AckTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		c.abandon()
		return context.Cause(ctx)
	case <-timer.C:
	}
	c.resolveForeign()
	silent := c.abandon()
	if silent == 0 {
		return nil
	}
	return c.sink.silence(ctx, silent, len(c.waits))
}

// resolveForeign ends the messages that no stream could have acknowledged.
func (c *call) resolveForeign() {
	silence := c.sink.errSilence()
	for i, d := range c.ds {
		if err := c.sink.blame(d, silence); err != silence {
			c.resolve(i, err)
		}
	}
}

// abandon takes the messages that have no answer yet, returns how many, and waits for those that are being reported.
func (c *call) abandon() (n int) {
	c.mu.Lock()
	for i, waits := range c.waits {
		if waits {
			c.waits[i] = false
			n++
		}
	}
	c.mu.Unlock()
	for range n {
		<-c.sink.acks.slots
	}
	c.reporting.Wait()
	return n
}

// silence says whose fault it is that messages were not acknowledged. When none of several was, it is the destination's;
// when some were, or there was only one, the destination is asked.
func (s *Sink) silence(ctx context.Context, silent, all int) error {
	err := s.errSilence()
	if silent == all && all > 1 {
		return outbox.Unavailable(err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AckTimeout)
	defer cancel()
	if cause := s.Preflight(ctx); cause != nil {
		return outbox.Unavailable(fmt.Errorf("%w: %w", err, cause))
	}
	return fmt.Errorf("%w, though the stream answers: %w", err, outbox.ErrHandlerTimeout)
}

func (s *Sink) errSilence() error {
	return fmt.Errorf("no acknowledgement within %v", s.cfg.AckTimeout)
}

package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is a connection with all that belongs to it: the channel in confirm mode that messages are published to, the
// channel for questions, and the goroutines that serve them. It is made and lost as one unit, since a channel that was
// repaired by itself may be alive without confirm mode. The client's own recovery is not used, for the same reason.
type link struct {
	sink      *Sink
	node      string // for errors: scheme and host
	transport *transport
	conn      *amqp.Connection
	main      *channel
	control   *amqp.Channel
	asking    chan struct{} // holds a token while control is in use
	calls     chan *call    // to the writer
	work      sync.WaitGroup

	lost     chan struct{}
	lostOnce sync.Once
	lostErr  error // set before lost is closed

	mu      sync.Mutex
	ended   bool          // no more work
	blocked chan struct{} // closed while RabbitMQ takes no messages
	reason  string
}

// dialLink makes a link. The caller starts run.
func (s *Sink) dialLink(ctx context.Context, node string) (*link, error) {
	l := &link{
		sink: s, node: redacted(node), asking: make(chan struct{}, 1), calls: make(chan *call),
		lost: make(chan struct{}), blocked: make(chan struct{}),
	}
	stop := func() bool { return true }
	cfg := amqp.Config{
		Heartbeat: s.cfg.Heartbeat, Properties: amqp.NewConnectionProperties(),
		Dial: func(network, addr string) (_ net.Conn, err error) {
			if l.transport, err = dial(ctx, network, addr, s.cfg.ConfirmTimeout); err != nil {
				return nil, err
			}
			t := l.transport
			stop = context.AfterFunc(ctx, func() { t.Close() })
			return l.transport, nil
		},
	}
	cfg.Properties.SetClientConnectionName(s.cfg.Name)
	if s.cfg.TLS != nil {
		cfg.TLSClientConfig = s.cfg.TLS.Clone()
	}
	conn, err := amqp.DialConfig(node, cfg)
	if err == nil {
		l.conn = conn
		err = l.open()
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if l.transport != nil {
			l.transport.Close() // the client leaves it open when the handshake fails
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within the connect timeout, or the sink was closed: %w", context.Cause(ctx))
		}
		return nil, l.notConnected(explain(err, &s.cfg))
	}
	s.cfg.Logger.Debug("connected to RabbitMQ", "node", l.node, "exchange", s.cfg.Exchange)
	return l, nil
}

// open makes what belongs to a connection: the exchange first, on the channel for questions, which RabbitMQ closes if
// it does not like the question.
func (l *link) open() (err error) {
	if l.control, err = l.conn.Channel(); err != nil {
		return err
	}
	cfg := &l.sink.cfg
	declare := l.control.ExchangeDeclare
	if cfg.Passive {
		declare = l.control.ExchangeDeclarePassive
	}
	if err := declare(cfg.Exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return err
	}
	l.main, err = l.newChannel(l.sink.cfg.MaxInFlight)
	return err
}

// run serves the link until it is lost, and takes it down.
func (l *link) run() {
	closed := l.conn.NotifyClose(make(chan *amqp.Error, 1))
	controlClosed := l.control.NotifyClose(make(chan *amqp.Error, 1))
	blockings := l.conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	l.main.start(func(err error) {
		if l.conn.IsClosed() {
			err = l.notConnected(err)
		}
		l.fail(err)
	})
	l.work.Go(l.write)
	for !l.isLost() {
		select {
		case err := <-closed: // nil if it was closed before anybody listened
			l.fail(l.notConnected(explain(lossOf(err), &l.sink.cfg)))
		case err := <-controlClosed:
			l.fail(explain(lossOf(err), &l.sink.cfg))
		case b := <-blockings:
			l.setBlocked(b)
		case <-l.lost:
		}
	}
	l.sink.cfg.Logger.Debug("disconnected from RabbitMQ", "node", l.node, "error", l.lostErr)
	l.takeDown()
	for range blockings { // until the client closes it
	}
	l.end()
}

// takeDown closes the connection in the protocol's way if the server answers quickly, else at once.
func (l *link) takeDown() {
	const limit = 500 * time.Millisecond
	kill := time.AfterFunc(limit, func() { l.transport.Close() })
	defer kill.Stop()
	if !l.conn.IsClosed() {
		_ = l.conn.CloseDeadline(time.Now().Add(limit)) // the transport is closed in any case
	}
	l.transport.Close()
}

func lossOf(err *amqp.Error) error {
	if err == nil {
		return errors.New("the connection was closed")
	}
	return err
}

// fail ends the link; only the first reason counts.
func (l *link) fail(err error) {
	l.lostOnce.Do(func() {
		l.lostErr = err
		close(l.lost)
	})
}

func (l *link) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// setBlocked takes RabbitMQ's word that it takes messages, or none.
func (l *link) setBlocked(b amqp.Blocking) {
	l.transport.patient.Store(b.Active)
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.blocked:
		if !b.Active {
			l.blocked = make(chan struct{})
		}
	default:
		if b.Active {
			l.reason = b.Reason
			close(l.blocked)
		}
	}
}

// blocking returns a channel that is closed while RabbitMQ takes no messages.
func (l *link) blocking() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked
}

func (l *link) errBlocked() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("RabbitMQ at %s takes no messages now: %s", l.node, l.reason)
}

// ask asks for the exchange. A server that does not answer in time loses the link, and so does one that does not know
// the exchange any more.
func (l *link) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.sink.cfg.ConfirmTimeout, errSilent)
	defer cancel()
	blocked := l.blocking()
	select {
	case <-blocked:
		return l.errBlocked()
	default:
	}
	select {
	case l.asking <- struct{}{}:
	case <-blocked:
		return l.errBlocked()
	case <-l.lost:
		return l.lostErr
	case <-ctx.Done():
		return l.unanswered(ctx)
	}
	answer := make(chan error, 1)
	asked := l.begin(func() {
		defer func() { <-l.asking }()
		answer <- l.control.ExchangeDeclarePassive(l.sink.cfg.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	})
	if !asked {
		<-l.asking
		return l.lostErr
	}
	select {
	case err := <-answer:
		if err != nil {
			l.fail(explain(err, &l.sink.cfg))
			return l.lostErr
		}
		return nil
	case <-blocked:
		return l.errBlocked()
	case <-l.lost:
		return l.lostErr
	case <-ctx.Done():
		return l.unanswered(ctx)
	}
}

// begin starts work that no work of the link's has started; false: the link is lost, and its work may be awaited, which
// would miss this one, or panic.
func (l *link) begin(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.work.Go(work)
	return true
}

// end lets all work end, and begins no other.
func (l *link) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.work.Wait()
}

var errSilent = errors.New("RabbitMQ does not answer")

// unanswered ends a question. A server that was given its time and said nothing is lost.
func (l *link) unanswered(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errSilent) {
		l.fail(l.notConnected(fmt.Errorf("no answer within %v", l.sink.cfg.ConfirmTimeout)))
		return l.lostErr
	}
	return cause
}

func (l *link) notConnected(err error) error {
	return fmt.Errorf("%w at %s: %w", errNotConnected, l.node, err)
}

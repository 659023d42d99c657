package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

// Sink publishes to RabbitMQ. Make one with Open, end it with Close. Its methods may be called from any goroutine.
//
// It connects when it is needed: a delivery, ping or preflight that finds no connection makes one, with channel and
// confirm mode. Deliveries wait with that after a failure, for up to two seconds; a ping or preflight, which the
// relay paces, tries at once.
type Sink struct {
	cfg        Config
	url        string
	routingKey template.Template
	slots      chan struct{} // one for each message that waits for its confirmation
	alone      int           // payloads larger than this get a channel of their own
	maxMessage atomic.Int64  // what RabbitMQ said about a message that was too large; 0: not known

	ctx    context.Context // of connects, ended by Close
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // connects and links

	mu       sync.Mutex
	closed   bool
	link     *link    // nil or lost: connect
	connect  *connect // under way
	failures int
	retryAt  time.Time
	lastErr  error
}

var (
	_ outbox.BatchSink   = (*Sink)(nil)
	_ outbox.Pinger      = (*Sink)(nil)
	_ outbox.Preflighter = (*Sink)(nil)
)

var (
	errClosed       = errors.New("the sink is closed")
	errNotConnected = errors.New("not connected to RabbitMQ")
)

// Open makes a sink; it does not connect yet. The URL is amqp://user:password@host:port/vhost, or amqps:// with TLS;
// several with commas between are nodes of one cluster, and are tried in turn. It may be empty if Config.URLFunc is
// given; cfg may be nil.
func Open(url string, cfg *Config) (*Sink, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("rabbitsink configuration: %w", err)
	}
	c := cfg.withDefaults()
	if c.URLFunc == nil {
		if err := CheckURL(url); err != nil {
			return nil, err
		}
	}
	key, err := template.Parse(c.RoutingKey)
	if err != nil {
		return nil, err
	}
	s := &Sink{cfg: c, url: url, routingKey: key, slots: make(chan struct{}, c.MaxInFlight), alone: largeMessage}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Close ends the sink and its connection. Messages on their way become Unavailable.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	s.cancel(errClosed)
	if l != nil {
		l.fail(errClosed)
	}
	s.work.Wait()
}

// Deliver publishes one message and waits for its confirmation.
func (s *Sink) Deliver(ctx context.Context, d *outbox.Delivery) error {
	var result error
	err := s.DeliverBatch(ctx, []*outbox.Delivery{d}, func(_ int, err error) { result = err })
	return errors.Join(err, result)
}

// Ping connects if need be and asks RabbitMQ for the exchange.
func (s *Sink) Ping(ctx context.Context) error {
	l, err := s.connected(ctx, true)
	if err != nil {
		return err
	}
	return l.ask(ctx)
}

// Preflight is Ping: it reports a login that is refused, an exchange that is missing, of another type or not ours to
// write to as far as that can be known, and a memory alarm that has stopped us.
func (s *Sink) Preflight(ctx context.Context) error { return s.Ping(ctx) }

// connect is one under way. link and err are set before done is closed.
type connect struct {
	done chan struct{}
	link *link
	err  error
}

// connected returns a link that is not known to be lost; it makes one, or waits for the one that is being made. A
// caller that is not urgent gets the last error instead while it is too early for another try.
func (s *Sink) connected(ctx context.Context, urgent bool) (*link, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	if s.link != nil && !s.link.isLost() {
		defer s.mu.Unlock()
		return s.link, nil
	}
	if s.connect == nil {
		if !urgent && time.Now().Before(s.retryAt) {
			defer s.mu.Unlock()
			return nil, s.lastErr
		}
		c := &connect{done: make(chan struct{})}
		s.connect = c
		s.work.Go(func() { s.makeLink(c) })
	}
	c := s.connect
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.link, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// makeLink connects and tells those who wait.
func (s *Sink) makeLink(c *connect) {
	defer close(c.done)
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.ConnectTimeout)
	defer cancel()
	c.link, c.err = s.dialAny(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connect = nil
	if c.err != nil {
		s.failures++
		s.retryAt, s.lastErr = time.Now().Add(rest(s.failures)), c.err
		return
	}
	s.failures, s.link = 0, c.link
	s.maxMessage.Store(0) // it may have been changed
	s.work.Go(c.link.run)
	if s.closed {
		c.link.fail(errClosed)
	}
}

// rest is the distance of tries that nobody paces: half to all of 50 ms, 100 ms … 2 s.
func rest(failures int) time.Duration {
	const longest = 2 * time.Second
	d := min(25*time.Millisecond<<min(failures, 10), longest)
	return d/2 + rand.N(d/2+1)
}

// dialAny tries the nodes in turn, each with its share of the time. The error is that of the last one.
func (s *Sink) dialAny(ctx context.Context) (*link, error) {
	text := s.url
	if s.cfg.URLFunc != nil {
		var err error
		if text, err = s.cfg.URLFunc(ctx); err == nil {
			err = CheckURL(text)
		}
		if err != nil {
			return nil, outbox.Misconfigured(fmt.Errorf("URL of RabbitMQ: %w", err))
		}
	}
	var err error
	nodes := strings.Split(text, ",")
	for i, node := range nodes {
		share := s.cfg.ConnectTimeout / time.Duration(len(nodes))
		if i == len(nodes)-1 {
			share = s.cfg.ConnectTimeout
		}
		var l *link
		nodeCtx, cancel := context.WithTimeout(ctx, share)
		l, err = s.dialLink(nodeCtx, strings.TrimSpace(node))
		cancel()
		if err == nil || s.ctx.Err() != nil {
			return l, err
		}
	}
	return nil, err
}

// CheckURL reports what is wrong with the URL or URLs given to Open. The error shows nothing of it: there may be a
// password in any part. An @ behind the host is refused, and so is a fragment: they are what a reserved character in the
// password makes of a URL, whose host, which errors name, is then a part of the password.
func CheckURL(text string) error {
	for node := range strings.SplitSeq(text, ",") {
		node = strings.TrimSpace(node)
		u, err := url.Parse(node)
		if err != nil || u.Host == "" || u.Scheme != "amqp" && u.Scheme != "amqps" || !isPort(u.Port()) ||
			strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(node, "#") {
			return errors.New("is no URL such as amqp://user:password@host:5672/vhost, or several with commas between; reserved characters in a password, and an @ in any other part, are written as %xx")
		}
		if _, err := amqp.ParseURI(node); err != nil {
			return errors.New("the URL's heartbeat, connection_timeout or channel_max is not a whole number within AMQP's bounds")
		}
	}
	return nil
}

// isPort reports whether the text is a port, or nothing: the scheme's own.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

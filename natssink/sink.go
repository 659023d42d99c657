package natssink

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
)

// Sink publishes to JetStream. Make one with New or Open, end it with Close. Its methods may be called from any
// goroutine.
type Sink struct {
	cfg     Config
	subject subject
	conn    *nats.Conn
	owned   bool // Close closes the connection
	js      jetstream.JetStream
	acks    *acks

	maxMsgSize     atomic.Int64             // of the stream, as last seen by Preflight; 0 or less: no limit
	streamSubjects atomic.Pointer[[]string] // of all streams, as last seen by Preflight; nil: not known
	duplicates     atomic.Int64
	advice         advice
	closeOnce      sync.Once
}

var (
	_ outbox.Pipeliner   = (*Sink)(nil)
	_ outbox.Pinger      = (*Sink)(nil)
	_ outbox.Preflighter = (*Sink)(nil)
)

// New makes a sink on a connection of the caller's, who closes it after the sink; cfg may be nil. The connection must
// have been made with nats.ReconnectBufSize(-1): otherwise the client would keep messages while it is disconnected, and
// send them when the relay may have lost them to another one.
func New(conn *nats.Conn, cfg *Config) (*Sink, error) {
	c := cfg.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("natssink configuration: %w", err)
	}
	if conn == nil {
		return nil, fieldError("conn", "nil", "a sink needs a connection")
	}
	if size := conn.Opts.ReconnectBufSize; size >= 0 {
		return nil, fieldError("conn.Opts.ReconnectBufSize", number(size).String(), "must be negative: connect with nats.ReconnectBufSize(-1)")
	}
	subject, err := parseSubject(c.Subject)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	s := &Sink{cfg: c, subject: subject, conn: conn, js: js}
	if s.acks, err = newAcks(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Open connects to one or several servers, separated by commas, and makes a sink that owns the connection. TLS,
// credentials and whatever else the client offers are options, such as nats.UserCredentials(file) and nats.RootCAs(file).
// A server that is absent is no error: the connection is made as soon as that is possible, and Preflight tells.
func Open(url string, cfg *Config, options ...nats.Option) (*Sink, error) {
	ours := []nats.Option{nats.Name("outbox"), nats.ErrorHandler(cfg.logTrouble())}
	must := []nats.Option{nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)}
	conn, err := nats.Connect(url, append(append(ours, options...), must...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	s, err := New(conn, cfg)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// logTrouble takes what the client would print to standard error. What matters of it shows as a delivery's error.
func (cfg *Config) logTrouble() nats.ErrHandler {
	log := cfg.withDefaults().Logger
	return func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Debug("NATS client", "error", err) }
}

// Close ends the sink, and its connection if Open made it. Messages on their way become Unavailable.
func (s *Sink) Close() {
	s.closeOnce.Do(func() {
		s.acks.close()
		if s.owned {
			s.conn.Close()
		}
	})
}

// Stats are counts since the sink was made.
type Stats struct {
	// Duplicates counts messages that the stream had already: delivered, and stored once.
	Duplicates int64
}

// Stats returns the counts so far.
func (s *Sink) Stats() Stats { return Stats{Duplicates: s.duplicates.Load()} }

// Pipelines reports Config.Pipeline.
func (s *Sink) Pipelines() bool { return s.cfg.Pipeline }

// Deliver publishes one message and waits for its acknowledgement.
func (s *Sink) Deliver(ctx context.Context, d *outbox.Delivery) error {
	var result error
	err := s.DeliverBatch(ctx, []*outbox.Delivery{d}, func(_ int, err error) { result = err })
	return errors.Join(err, result)
}

// Ping asks the server for an answer.
func (s *Sink) Ping(ctx context.Context) error {
	if !s.conn.IsConnected() {
		return s.notConnected()
	}
	err := s.conn.FlushWithContext(ctx)
	if err != nil && !s.conn.IsConnected() {
		return s.notConnected()
	}
	if err != nil {
		return fmt.Errorf("ping NATS: %w", err)
	}
	return nil
}

// notConnected says so in words that do not change from try to try, which would be another reason to log each time.
func (s *Sink) notConnected() error {
	var servers []string
	for _, server := range s.conn.Opts.Servers {
		servers = append(servers, redacted(server))
	}
	if len(servers) == 0 {
		servers = []string{redacted(s.conn.Opts.Url)}
	}
	err := fmt.Errorf("%w at %s", errNotConnected, strings.Join(servers, ", "))
	if why := loginError(s.conn.LastError()); why != nil {
		return outbox.Misconfigured(fmt.Errorf("%w: %w", err, why))
	}
	return err
}

// loginError is the error if somebody has to do something about it, unlike those of a server that is absent. It is
// the client's own value, since the server's words for it vary.
func loginError(err error) error {
	for _, known := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

var errNotConnected = errors.New("not connected to NATS")

// redacted is a server's address without its password, user or token.
func redacted(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		_, after, found := strings.Cut(server, "@")
		if found {
			return after
		}
		return server
	}
	return u.Scheme + "://" + u.Host
}

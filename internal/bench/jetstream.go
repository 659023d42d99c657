package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/natssink"
)

const benchStream = "BENCH"

// JetStream is a stream on files; its server runs in this process, so client CPU includes it.
func JetStream() Destination {
	return Destination{Name: "JetStream", Open: func(ctx context.Context) (Target, error) { return openStream(ctx) }}
}

// Stream is an open JetStream destination. Peers publish by its JS.
type Stream struct {
	server *natsdev.Server
	conn   *nats.Conn
	JS     jetstream.JetStream
	sink   *natssink.Sink
}

func openStream(ctx context.Context) (*Stream, error) {
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		return nil, err
	}
	s := &Stream{server: server}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stream) open(ctx context.Context) (err error) {
	if s.conn, err = nats.Connect(s.server.URL()); err != nil {
		return fmt.Errorf("connect to the stream's server: %w", err)
	}
	if s.JS, err = jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(Window)); err != nil {
		return err
	}
	cfg := jetstream.StreamConfig{Name: benchStream, Subjects: []string{Topic}, Storage: jetstream.FileStorage}
	if _, err := s.JS.CreateStream(ctx, cfg); err != nil {
		return fmt.Errorf("make the stream: %w", err)
	}
	s.sink, err = natssink.Open(s.server.URL(), &natssink.Config{Stream: benchStream, Topics: []string{Topic}, RetryHorizon: time.Minute})
	return err
}

// URL is that of the server.
func (s *Stream) URL() string { return s.server.URL() }

// Sink is the project's own.
func (s *Stream) Sink() outbox.Sink { return s.sink }

func (s *Stream) message(d *outbox.Delivery) *nats.Msg {
	return &nats.Msg{Subject: d.Topic, Data: d.Payload, Header: nats.Header{nats.MsgIdHdr: {d.ID.String()}}}
}

// Publish waits for the acknowledgement.
func (s *Stream) Publish(ctx context.Context, d *outbox.Delivery) error {
	_, err := s.JS.PublishMsg(ctx, s.message(d))
	return err
}

// PublishAll waits for all acknowledgements.
func (s *Stream) PublishAll(ctx context.Context, ds []*outbox.Delivery) error {
	acks := make([]jetstream.PubAckFuture, len(ds))
	for i, d := range ds {
		var err error
		if acks[i], err = s.JS.PublishMsgAsync(s.message(d)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("publish: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Arrived counts what the stream has stored.
func (s *Stream) Arrived(ctx context.Context) (int64, error) {
	stream, err := s.JS.Stream(ctx, benchStream)
	if err != nil {
		return 0, fmt.Errorf("look at the stream: %w", err)
	}
	return int64(stream.CachedInfo().State.Msgs), nil
}

// Close ends the server.
func (s *Stream) Close() error {
	if s.sink != nil {
		s.sink.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	return s.server.Close()
}

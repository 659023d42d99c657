package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/rabbitsink"
)

// RabbitMQ is a durable classic queue behind a topic exchange. A node takes seconds to start, so the runs share one,
// which End ends, and each has a queue of its own. The node is a process of its own: client CPU does not include it.
func RabbitMQ() Destination {
	n := &rabbitNode{}
	return Destination{Name: "RabbitMQ", Open: func(ctx context.Context) (Target, error) { return n.open(ctx) }, End: n.end}
}

// rabbitNode is the node of all runs.
type rabbitNode struct {
	runs   atomic.Int64
	mu     sync.Mutex
	server *rabbitdev.Server // nil until it is needed
}

func (n *rabbitNode) start(ctx context.Context) (_ *rabbitdev.Server, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		n.server, err = rabbitdev.Start(ctx)
	}
	return n.server, err
}

func (n *rabbitNode) end() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return nil
	}
	server := n.server
	n.server = nil
	return server.Close()
}

func (n *rabbitNode) open(ctx context.Context) (*queue, error) {
	server, err := n.start(ctx)
	if err != nil {
		return nil, err
	}
	q := &queue{server: server, name: "bench-" + strconv.FormatInt(n.runs.Add(1), 10)}
	if err := q.open(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// queue is an open RabbitMQ destination.
type queue struct {
	server *rabbitdev.Server
	name   string // of the exchange too
	conn   *amqp.Connection
	ch     *amqp.Channel
	sink   *rabbitsink.Sink
}

func (q *queue) open() (err error) {
	if err := q.server.Bind(q.name, q.name, "#", nil); err != nil {
		return err
	}
	if q.conn, err = amqp.Dial(q.server.URL()); err != nil {
		return fmt.Errorf("connect to the queue's server: %w", err)
	}
	if q.ch, err = q.conn.Channel(); err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	if err := q.ch.Confirm(false); err != nil {
		return fmt.Errorf("ask for confirmations: %w", err)
	}
	q.sink, err = rabbitsink.Open(q.server.URL(), &rabbitsink.Config{Exchange: q.name, MaxInFlight: Window})
	return err
}

// Sink is the project's own.
func (q *queue) Sink() outbox.Sink { return q.sink }

func (q *queue) send(ctx context.Context, d *outbox.Delivery) (*amqp.DeferredConfirmation, error) {
	return q.ch.PublishWithDeferredConfirmWithContext(ctx, q.name, d.Topic, true, false, amqp.Publishing{
		MessageId: d.ID.String(), ContentType: contentType, DeliveryMode: amqp.Persistent, Timestamp: d.PublishedAt, Body: d.Payload,
	})
}

func confirmed(ctx context.Context, c *amqp.DeferredConfirmation) error {
	ok, err := c.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("refused")
	}
	return err
}

// Publish waits for the confirmation.
func (q *queue) Publish(ctx context.Context, d *outbox.Delivery) error {
	c, err := q.send(ctx, d)
	if err != nil {
		return err
	}
	return confirmed(ctx, c)
}

// PublishAll waits for all confirmations.
func (q *queue) PublishAll(ctx context.Context, ds []*outbox.Delivery) error {
	all := make([]*amqp.DeferredConfirmation, len(ds))
	for i, d := range ds {
		var err error
		if all[i], err = q.send(ctx, d); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	for _, c := range all {
		if err := confirmed(ctx, c); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// Arrived counts what the queue holds.
func (q *queue) Arrived(context.Context) (int64, error) {
	state, err := q.ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("look at the queue: %w", err)
	}
	return int64(state.Messages), nil
}

// Close removes the queue.
func (q *queue) Close() (err error) {
	if q.sink != nil {
		q.sink.Close()
	}
	if q.conn != nil {
		err = q.conn.Close()
	}
	return errors.Join(err, q.server.Delete(q.name, q.name))
}

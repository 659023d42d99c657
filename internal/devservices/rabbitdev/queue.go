package rabbitdev

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Do opens a channel on a connection of its own, for what a test has to declare, bind, read or delete.
func (s *Server) Do(work func(ch *amqp.Channel) error) error {
	conn, err := s.dial()
	if err != nil {
		return fmt.Errorf("connect to rabbitmq: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	return work(ch)
}

// Bind declares a durable topic exchange and a durable queue that gets what the pattern matches.
func (s *Server) Bind(exchange, queue, pattern string, args amqp.Table) error {
	return s.Do(func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare exchange: %w", err)
		}
		if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			return fmt.Errorf("declare queue: %w", err)
		}
		return ch.QueueBind(queue, pattern, exchange, false, nil)
	})
}

// Delete removes an exchange and queues; what does not exist is no error.
func (s *Server) Delete(exchange string, queues ...string) error {
	return s.Do(func(ch *amqp.Channel) error {
		var errs []error
		if exchange != "" {
			errs = append(errs, ch.ExchangeDelete(exchange, false, false))
		}
		for _, queue := range queues {
			_, err := ch.QueueDelete(queue, false, false, false)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// Messages returns what a queue holds, oldest first, and leaves it there.
func (s *Server) Messages(queue string) (all []amqp.Delivery, err error) {
	err = s.Do(func(ch *amqp.Channel) error {
		for { // the end of the channel puts them back
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return err
			}
			all = append(all, d)
		}
	})
	return all, err
}

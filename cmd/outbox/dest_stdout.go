package main

import (
	"context"
	"sync"

	"github.com/outboxrelay/outbox"
)

// stdoutScheme writes each message to standard output, as a line that publish --file reads.
func stdoutScheme() scheme {
	return scheme{
		names: []string{"stdout"},
		form:  "stdout:",
		open: func(_ context.Context, _ *destination, env sinkEnv) (outbox.Sink, error) {
			return &stdoutSink{app: env.app}, nil
		},
	}
}

type stdoutSink struct {
	app *app
	mu  sync.Mutex
}

func (s *stdoutSink) Deliver(_ context.Context, d *outbox.Delivery) error {
	text, err := newLine(d).encode()
	if err != nil {
		return outbox.Permanent(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.app.stdout.Write(text); err != nil { // a full disk, for example, is no message's fault
		return outbox.Unavailable(err)
	}
	return nil
}

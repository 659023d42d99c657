package sinktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

func wrongFaults() []wrong {
	return []wrong{
		{"blames the message for silence", func(r *rules) { r.silence = unanswered(errors.New("no answer")) },
			[]string{"silence is unavailable"}},
		{"buries messages in silence", func(r *rules) { r.silence = unanswered(outbox.Permanent(errors.New("no answer"))) },
			[]string{"silence is unavailable", "a cancelled call returns at once"}},
		{"takes silence for consent", func(r *rules) { r.batch = consent },
			[]string{"silence is unavailable", "a cancelled call returns at once"}},
		{"waits for an answer and nothing else", func(r *rules) {
			var once sync.Once // is enough
			r.silence = func(context.Context, <-chan struct{}) error {
				once.Do(func() { time.Sleep(slack + 100*time.Millisecond) })
				return outbox.Unavailable(errors.New("no answer"))
			}
		}, []string{"a cancelled call returns at once"}},
		{"stores a message behind the next one", func(r *rules) {
			r.add = func(all []Stored, s Stored) []Stored {
				all = append(all, s)
				if n := len(all); n%7 == 0 {
					all[n-1], all[n-2] = all[n-2], all[n-1]
				}
				return all
			}
		}, []string{"a key keeps its order over restarts"}},
		{"gives a failure to the next message", func(r *rules) { r.batch = shifted },
			[]string{"a batch fails in part", "too large is permanent and alone"}},
		{"stops at the first failure", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				for i, d := range ds {
					err := m.Deliver(ctx, d)
					report(i, err)
					if outbox.IsPermanent(err) {
						return outbox.Unavailable(errors.New("behind a failure"))
					}
				}
				return nil
			}
		}, []string{"a batch fails in part"}},
		{"writes lines as spaces", func(r *rules) {
			carryLines(r)
			r.header = func(name, value string) (string, string, bool) {
				return name, strings.NewReplacer("\r", " ", "\n", " ").Replace(value), true
			}
		}, []string{"line breaks in headers survive where they can"}},
		{"refuses lines that it could write", func(r *rules) {
			carryLines(r)
			r.refuse = refuse
		}, []string{"line breaks in headers survive where they can"}},
		{"lets callers forge its headers", func(r *rules) {
			carryLines(r)
			r.refuse = func(*outbox.Delivery) error { return nil }
		}, []string{"line breaks in headers survive where they can", "a batch fails in part"}},
	}
}

// unanswered has a result, but not the right one, whatever ends the wait.
func unanswered(err error) func(ctx context.Context, thawed <-chan struct{}) error {
	return func(ctx context.Context, thawed <-chan struct{}) error {
		if awaitAnswer(ctx, thawed) == nil {
			return nil
		}
		return err
	}
}

// consent reports what has no answer in time as delivered.
func consent(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	m.mu.Lock()
	silent := m.thawed != nil
	m.mu.Unlock()
	for i, d := range ds {
		if silent {
			report(i, nil)
		} else {
			report(i, m.Deliver(ctx, d))
		}
	}
	return nil
}

// shifted reports every result one place too late.
func shifted(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	for i, d := range ds {
		report((i+1)%len(ds), m.Deliver(ctx, d))
	}
	return nil
}

package sqlitestore

import (
	"context"
	"fmt"
	"os"
	"os/user"

	"github.com/outboxrelay/outbox"
)

// Pause keeps relays from claiming; see outbox.Operator.
func (s *Store) Pause(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "pause", p, func(t *tx, scope, name string) (int64, error) {
		return t.exec("pause", scope, name, p.Reason, actor(p.Actor), t.now)
	})
}

// Resume ends a pause; see outbox.Operator.
func (s *Store) Resume(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "resume", p, func(t *tx, scope, name string) (int64, error) { return t.exec("resume", scope, name) })
}

func (s *Store) control(ctx context.Context, verb string, p outbox.Pause, do func(t *tx, scope, name string) (int64, error)) (r outbox.ChangeReport, err error) {
	if err := p.Check(); err != nil {
		return r, err
	}
	scope, name := "topic", p.Topic
	if name == "" {
		scope, name = "destination", p.Destination
	}
	err = s.write(ctx, func(t *tx) error {
		n, err := do(t, scope, name)
		if err != nil || n == 0 {
			return err
		}
		r.Matched, r.Changed = 1, 1
		if err := t.row("control_operation", []any{verb, scope, name, actor(p.Actor), p.Reason, t.now}, &r.Operation); err != nil {
			return err
		}
		_, err = t.exec("note_change")
		return err
	})
	if err != nil {
		return outbox.ChangeReport{}, s.explain(verb, err)
	}
	return r, nil
}

// actor is who did it, unless it is said: the user of the process, since SQLite knows no users.
func actor(given string) string {
	if given != "" {
		return given
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Notifications are a hint and never the truth: whatever happens to this connection, relays poll.
const (
	listenPing      = 5 * time.Second // silence after which the connection is asked whether it still lives
	listenPatience  = 3 * time.Second // for each answer on it
	listenFirstWait = 100 * time.Millisecond
	listenLastWait  = 5 * time.Second
	// listenLasting is how long a connection has to last for the next one to be tried at once.
	listenLasting = 5 * time.Second
)

// errSilent: LISTEN succeeded and a notification of our own did not arrive.
var errSilent = errors.New("notifications do not arrive; is there a pooler in transaction mode? Listen by a direct connection (database.listen_url), or not at all (notify: off)")

// Wait returns at a wake-up or at the time; see outbox.Store.
func (s *Store) Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-s.signal.after(seen):
	case <-timer.C:
	case <-ctx.Done():
		return seen, ctx.Err()
	}
	return s.signal.seen(), nil
}

// Listen listens for notifications and streams, as configured, until the context is done; see outbox.Listener.
func (s *Store) Listen(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.cfg.Engine == EngineWAL {
		wg.Go(func() { s.stream.run(ctx) })
	}
	if s.cfg.Notify != NotifyOff {
		wg.Go(func() { s.listen(ctx) })
	}
}

// listen keeps a connection that listens for notifications. After each (re)connection it wakes all waiting lanes:
// something may have been published meanwhile.
func (s *Store) listen(ctx context.Context) {
	wait := listenFirstWait
	listening := true // so that the first failure is logged
	for ctx.Err() == nil {
		var began time.Time
		err := s.listenOnce(ctx, func() {
			s.logListening(ctx, !listening)
			listening, began = true, time.Now()
			s.signal.wake()
		})
		if ctx.Err() != nil {
			return
		}
		if !began.IsZero() && time.Since(began) >= listenLasting {
			wait = listenFirstWait
		}
		if listening {
			s.log.WarnContext(ctx, "cannot listen for notifications, polling meanwhile", "error", err)
			listening = false
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, listenLastWait)
	}
}

// logListening tells what ends the trouble that was told, and is silent when there was none.
func (s *Store) logListening(ctx context.Context, again bool) {
	if again {
		s.log.InfoContext(ctx, "listening for notifications again", "channel", s.cfg.Schema)
	} else {
		s.log.DebugContext(ctx, "listening for notifications", "channel", s.cfg.Schema)
	}
}

// listenOnce connects, proves by a round trip that notifications arrive, and listens until something fails.
func (s *Store) listenOnce(ctx context.Context, ready func()) error {
	conn, err := s.listenConn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := s.proveListening(ctx, conn); err != nil {
		return err
	}
	ready()
	for {
		switch err := s.await(ctx, conn, listenPing, ""); {
		case err == nil:
			s.signal.wake()
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		default:
			if err := ping(ctx, conn); err != nil {
				return fmt.Errorf("ping listening connection: %w", err)
			}
		}
	}
}

func (s *Store) listenConn(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	conn, err := s.connectToListen(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to listen: %w", err)
	}
	return conn, nil
}

func (s *Store) connectToListen(ctx context.Context) (*pgx.Conn, error) {
	if s.cfg.ListenURL == "" {
		return s.connect(ctx)
	}
	cfg, err := pgx.ParseConfig(s.cfg.ListenURL)
	if err != nil {
		return nil, err
	}
	return connectWith(ctx, cfg, s.cfg.BeforeListen)
}

// proveListening subscribes and waits for a notification that is sent through the pool, as publishers' are.
func (s *Store) proveListening(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{s.cfg.Schema}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	proof := strconv.FormatUint(rand.Uint64(), 36)
	if errs := s.run(ctx, s.transaction(call{s.sql.notify, []any{proof}, nil})); errs[0] != nil {
		return fmt.Errorf("notify: %w", errs[0])
	}
	if err := s.await(ctx, conn, listenPatience, proof); err != nil {
		return errors.Join(errSilent, err)
	}
	return nil
}

// await waits for a notification with a payload, at most for the given time.
func (s *Store) await(ctx context.Context, conn *pgx.Conn, patience time.Duration, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload == payload {
			return nil
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	return conn.Ping(ctx)
}

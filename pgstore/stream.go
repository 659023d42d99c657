package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// stream is the WAL engine of a Store: it follows the insertions into message and offers them to the lanes of the
// relays that this store has registered. How it works, and why its slot is temporary, is told in docs/protocol.md.
//
// The stream decides nothing. When it ends, for whatever reason, the lanes poll, as they do before it begins.
type stream struct {
	store *Store
	live  atomic.Bool   // lanes that are made now are fed
	turn  chan struct{} // holds a value while one of the store's relays streams for all of them

	trial time.Time // when whoever holds turn tries the next time whether it could take over

	mu      sync.Mutex
	beats   *streamBeats // of the current connection; nil: there is none
	server  int          // the server's process of that connection
	problem string       // why there is none
	unfit   string       // of one that stands by: why it could not take over; empty: it could, as far as is known
	since   time.Time    // of what beats and problem say
}

const (
	streamFirstWait = 100 * time.Millisecond
	streamLastWait  = 30 * time.Second
	// streamLasting is how long a stream has to last for the next one to be tried at once. Making a slot is dear.
	streamLasting = 5 * time.Second
	// streamTurn is how often a relay looks whether the one that streams is still there.
	streamTurn = time.Second
)

// errOtherStreams: another relay has the slot. That is no fault.
var errOtherStreams = errors.New("another relay streams")

// run streams whenever it can until the context is done. It logs a line when its state changes.
func (st *stream) run(ctx context.Context) {
	select {
	case st.turn <- struct{}{}:
		defer func() { <-st.turn }()
	case <-ctx.Done():
		return
	}
	wait := streamFirstWait
	for ctx.Err() == nil {
		err := st.once(ctx, func() { wait = streamFirstWait })
		if ctx.Err() != nil {
			return
		}
		st.stand(ctx, err)
		if errors.Is(err, errOtherStreams) {
			st.tryStandIn(ctx)
		}
		pause := streamTurn
		if !errors.Is(err, errOtherStreams) {
			pause, wait = wait, min(2*wait, streamLastWait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// stand notes why this relay does not stream, and tells it once.
func (st *stream) stand(ctx context.Context, err error) {
	text := err.Error()
	st.mu.Lock()
	told := st.problem
	st.problem = text
	if told != text {
		st.since = time.Now()
	}
	st.mu.Unlock()
	switch {
	case told == text:
	case errors.Is(err, errOtherStreams):
		st.store.log.InfoContext(ctx, "another relay streams, this one polls and stands by")
	default:
		st.store.log.WarnContext(ctx, "cannot stream, polling meanwhile", "error", err)
	}
}

// once connects and streams until something ends it. It calls lasted if that took a while.
func (st *stream) once(ctx context.Context, lasted func()) error {
	c, err := st.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	beats := newStreamBeats()
	var wg sync.WaitGroup
	defer func() {
		st.close(ctx)
		cancel()
		c.close()
		wg.Wait()
	}()
	st.open(ctx, beats, c.server)
	opened := time.Now()
	wg.Go(func() { beats.send(ctx, st.store) })
	router := newRouter(st.store)
	c.rows.message = beats.back
	c.rows.committed = func(t *transaction) {
		router.deliver(t)
		st.store.signal.arrive()
	}
	err = c.follow(ctx)
	if time.Since(opened) >= streamLasting {
		lasted()
	}
	return err
}

// open makes the lanes catch up and then follow.
func (st *stream) open(ctx context.Context, beats *streamBeats, server int) {
	st.mu.Lock()
	st.beats, st.server, st.problem, st.unfit, st.since = beats, server, "", "", time.Now()
	st.mu.Unlock()
	st.live.Store(true)
	st.store.eachLane(func(l *lane) { l.streamBegins() })
	st.tell(ctx)
	st.store.signal.arrive()
	st.store.log.InfoContext(ctx, "streaming new messages from the WAL")
}

// close makes the lanes poll.
func (st *stream) close(ctx context.Context) {
	st.live.Store(false)
	st.store.eachLane(func(l *lane) { l.streamEnds() })
	st.mu.Lock()
	st.beats, st.server, st.since = nil, 0, time.Now()
	st.mu.Unlock()
	st.tell(ctx)
	st.store.signal.arrive()
}

// tell writes into the relays' rows that they stream, or do no more. Whether that succeeds does not matter: heartbeats
// repeat it.
func (st *stream) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	streaming, report := st.report()
	_ = st.store.run(ctx, st.store.transaction(call{st.store.sql.streaming, []any{orEmpty(st.store.relayIDs()), streaming, report}, nil}))
}

// eachLane calls f for every lane of every relay of the store.
func (s *Store) eachLane(f func(*lane)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.relays {
		r.mu.Lock()
		for _, l := range r.lanes {
			f(l)
		}
		r.mu.Unlock()
	}
}

func (s *Store) relayIDs() (ids []outbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.relays {
		ids = append(ids, id)
	}
	return ids
}

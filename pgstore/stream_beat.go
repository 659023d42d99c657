package pgstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// streamBeats are the stream's heartbeats: logical messages that this relay writes and the stream has to bring back.
// One that is quiet and one that is stuck look the same without them, and they tell how far the stream is behind.
type streamBeats struct {
	nonce string // other relays' messages are not ours

	mu   sync.Mutex
	sent int64
	open map[int64]time.Time // not back yet
	lag  time.Duration       // of the last that came back
}

const (
	streamBeatEvery = 2 * time.Second
	// streamBeatsOpen bounds what is remembered while none comes back.
	streamBeatsOpen = 1000
)

func newStreamBeats() *streamBeats {
	return &streamBeats{nonce: outbox.NewID().String() + " ", open: map[int64]time.Time{}}
}

// next is the content of the next heartbeat.
func (b *streamBeats) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	if len(b.open) < streamBeatsOpen {
		b.open[b.sent] = time.Now()
	}
	return b.nonce + strconv.FormatInt(b.sent, 10)
}

// back takes a heartbeat that has returned.
func (b *streamBeats) back(content string) {
	if len(content) <= len(b.nonce) || content[:len(b.nonce)] != b.nonce {
		return
	}
	n, err := strconv.ParseInt(content[len(b.nonce):], 10, 64)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	sent, ok := b.open[n]
	if !ok {
		return
	}
	b.lag = time.Since(sent)
	for i := range b.open { // they come back in order
		if i <= n {
			delete(b.open, i)
		}
	}
}

// unsent takes a heartbeat back that could not be written.
func (b *streamBeats) unsent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, b.sent)
}

// behind is how far the stream is behind the database.
func (b *streamBeats) behind(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	lag := b.lag
	for _, sent := range b.open {
		lag = max(lag, now.Sub(sent))
	}
	return lag
}

// send writes heartbeats until the context is done. That one fails is the pool's matter: claims fail then too.
func (b *streamBeats) send(ctx context.Context, s *Store) {
	ticker := time.NewTicker(streamBeatEvery)
	defer ticker.Stop()
	for {
		content := b.next()
		call := call{s.sql.streamBeat, []any{publicationName(s.cfg.Schema), content}, nil}
		if errs := s.run(ctx, s.transaction(call)); errs[0] != nil {
			b.unsent()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// What is kept of messages that have ended, as it is stored in outbox_setting.
const (
	keepNothing = "off"
	keepBare    = "bare" // without payload
	keepFull    = "full"
)

// minKeep is the shortest time that messages are kept for, as in PostgreSQL.
const minKeep = time.Minute

// keeps is what the Store keeps of what it settles.
func (c *Config) keeps() string {
	switch {
	case c.KeepDelivered == 0:
		return keepNothing
	case c.OmitPayload:
		return keepBare
	}
	return keepFull
}

// settings adds to the digest of a relay's settings how its store keeps what has ended: relays that differ in it keep part of a
// destination's messages.
func (c *Config) settings(digest string) string {
	if digest == "" || c.KeepDelivered == 0 {
		return digest
	}
	return fmt.Sprintf("%s keep %v %v", digest, c.KeepDelivered, !c.OmitPayload)
}

// ending is what becomes of a message that ends, as an argument.
type ending struct {
	Seq         int64        `json:"seq"`
	Outcome     outbox.State `json:"outcome"`
	Destination string       `json:"destination,omitempty"`
	Detail      string       `json:"detail,omitempty"`
	Actor       string       `json:"actor,omitempty"`
}

// keep archives messages that are about to be deleted. What is kept is that mode.
func (t *tx) keep(mode string, list []ending) error {
	if mode == keepNothing || len(list) == 0 {
		return nil
	}
	if t.forgets {
		t.unkept += int64(len(list))
		return nil
	}
	if _, err := t.exec("archive_ended", array(list), t.now, mode == keepFull); err != nil {
		return &archiveError{err}
	}
	t.kept += len(list)
	return nil
}

// archiveError says that the archive does not take what ends.
type archiveError struct{ err error }

func (e *archiveError) Error() string { return "archive: " + e.err.Error() }
func (e *archiveError) Unwrap() error { return e.err }

// upkeep is what a Store remembers about the archive.
type upkeep struct {
	mu       sync.Mutex
	refusing bool // the archive refused the last messages
	notKept  atomic.Int64
}

// NotKept counts the messages that have ended without being kept since the archive refused them. Settling does not wait for an
// archive that takes nothing.
func (s *Store) NotKept() int64 { return s.upkeep.notKept.Load() }

// ending is write for what ends messages. When the archive refuses them, because the file is at its limit or a trigger of somebody's own
// says so, they end all the same, without being kept.
func (s *Store) ending(ctx context.Context, f func(t *tx) error) error {
	kept := 0
	err := s.write(ctx, func(t *tx) error {
		err := f(t)
		kept = t.kept
		return err
	})
	var refused *archiveError
	switch {
	case err == nil:
		s.archived(kept)
		return nil
	case errors.As(err, &refused) || kept > 0 && isFull(err):
		return s.forgetting(ctx, f, err)
	}
	return err
}

// forgetting does it again and keeps nothing.
func (s *Store) forgetting(ctx context.Context, f func(t *tx) error, why error) error {
	unkept := int64(0)
	err := s.write(ctx, func(t *tx) error {
		t.forgets = true
		err := f(t)
		unkept = t.unkept
		return err
	})
	if err == nil && unkept > 0 {
		s.refused(unkept, why)
	}
	return err
}

// isFull knows the error of all drivers by the text that SQLite gives to it.
func isFull(err error) bool { return strings.Contains(err.Error(), "database or disk is full") }

// archived takes note that the archive has taken messages.
func (s *Store) archived(n int) {
	if n == 0 {
		return
	}
	s.upkeep.mu.Lock()
	before := s.upkeep.refusing
	s.upkeep.refusing = false
	s.upkeep.mu.Unlock()
	if before {
		s.log.Info("the archive keeps messages again", "not_kept", s.NotKept())
	}
}

// refused takes note that it has not.
func (s *Store) refused(n int64, why error) {
	s.upkeep.notKept.Add(n)
	s.upkeep.mu.Lock()
	before := s.upkeep.refusing
	s.upkeep.refusing = true
	s.upkeep.mu.Unlock()
	if !before {
		s.log.Warn("the archive refuses messages, they end without being kept", "error", why)
	}
}

const (
	// expireTime is how long one Maintain removes what has been kept long enough.
	expireTime = time.Second
	// expireRest is the least that others may write between two batches.
	expireRest = 5 * time.Millisecond
)

// expireArchive removes what has been kept long enough, in batches, each a transaction of its own: others write between
// them for as long as a batch takes.
func (s *Store) expireArchive(ctx context.Context, q outbox.MaintainQuery) (expired int64, more bool, err error) {
	if s.cfg.KeepDelivered == 0 || s.cfg.KeepDelivered == outbox.KeepForever {
		return 0, false, nil
	}
	for end := time.Now().Add(expireTime); ; {
		begin, n := time.Now(), int64(0)
		err := s.write(ctx, func(t *tx) (err error) {
			now := t.now
			if !q.Now.IsZero() {
				now = q.Now.UnixMilli()
			}
			n, err = t.exec("expire_archive", now-milliseconds(s.cfg.KeepDelivered), q.Limit)
			return err
		})
		if err != nil {
			return expired, false, err
		}
		if expired += n; n < int64(q.Limit) {
			return expired, false, nil
		}
		if time.Now().After(end) {
			return expired, true, nil
		}
		select {
		case <-ctx.Done():
			return expired, true, context.Cause(ctx)
		case <-time.After(max(time.Since(begin), expireRest)):
		}
	}
}

// archivedRef names a message of the archive, as an argument.
type archivedRef struct {
	Seq        int64 `json:"seq"`
	Generation int   `json:"generation"`
}

func refsOf(rows []storedRow) []archivedRef {
	refs := make([]archivedRef, len(rows))
	for i := range rows {
		refs[i] = archivedRef{rows[i].seq, rows[i].generation}
	}
	return refs
}

// sortReplay takes each message once, in its last generation, and leaves alone what is under way already or dead, and what was
// kept without its payload.
func (o *operation) sortReplay(t *tx, b *batch) error {
	seqs := seqsOf(b.free)
	b.free = nil
	// The generations of a message that are left for the next batch are this one, too.
	if n := len(seqs); n > 0 && o.cursor.Seq == seqs[n-1] {
		o.cursor.Generation = 1<<31 - 1
	}
	return t.rows("replay_look", []any{array(seqs)}, func(rows *sql.Rows) error {
		var r storedRow
		var bare, held bool
		err := rows.Scan(&r.seq, &r.generation, &bare, &held)
		switch {
		case held:
			b.held = append(b.held, r.seq)
		case bare:
			b.bare++
		default:
			b.free = append(b.free, r)
		}
		return err
	})
}

package sqlitestore

import (
	"context"
	"os"
	"sync"
)

// file is where the outbox was when a relay looked first.
type file struct {
	mu   sync.Mutex
	path string      // empty: not known, or in memory
	info os.FileInfo // of the file that was there
	gone bool        // told already
}

// lookForFile tells when the file has been moved away, removed or replaced under the program. The connections that are open go
// on with what they have, which nobody will ever find again once they are closed; those that are made now get another.
func (s *Store) lookForFile(ctx context.Context) {
	f := &s.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info == nil {
		if err := s.db.QueryRowContext(ctx, s.sql["file"]).Scan(&f.path); err != nil || f.path == "" {
			return
		}
		f.info, _ = os.Stat(f.path) // else the next heartbeat looks
		return
	}
	now, err := os.Stat(f.path)
	gone := os.IsNotExist(err) || err == nil && !os.SameFile(now, f.info)
	switch {
	case gone && !f.gone:
		s.log.Error("the outbox's file is gone or was replaced: what is written now is lost when the program ends; stop it, put the file back, and start it again",
			"file", f.path)
	case f.gone && !gone && err == nil:
		s.log.Info("the outbox's file is there again", "file", f.path)
	}
	if err == nil || gone {
		f.gone = gone
	}
}

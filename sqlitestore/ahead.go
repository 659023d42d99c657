package sqlitestore

import (
	"database/sql"
	"time"
)

// sighting is a relay whose lease was seen too far ahead.
type sighting struct {
	beat int64
	at   time.Time
}

// lapseAhead ends leases that a step of the clock has made endless: when the clock is put back, the lease of a relay that has
// died lies ahead by as much as that. A lease further ahead than twice its length is not believed. Its relay has lapsed when it
// sends no heartbeat for as long as the lease, by this process's own clock: it then takes its lease to be over, whatever kept it.
func (s *Store) lapseAhead(t *tx, watcher string) error {
	seen := map[string]sighting{}
	lapsed := map[string]int64{}
	err := t.rows("beat_ahead", []any{watcher, t.now}, func(rows *sql.Rows) error {
		var id string
		var beat, lease int64
		if err := rows.Scan(&id, &beat, &lease); err != nil {
			return err
		}
		before, known := s.ahead(id)
		switch {
		case !known || before.beat != beat:
			seen[id] = sighting{beat, time.Now()}
		case time.Since(before.at) < duration(lease):
			seen[id] = before
		default:
			lapsed[id] = beat
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.setAhead(seen)
	for id, beat := range lapsed {
		if _, err := t.exec("delete_ahead", id, beat); err != nil {
			return err
		}
	}
	if len(lapsed) > 0 {
		s.log.Warn("relays have lapsed whose lease lay too far ahead: the clock was put back", "relays", len(lapsed))
		_, err = t.exec("note_change")
	}
	return err
}

// catchUp has retries wait no longer than they should from now on, when the clock was put back. It looks when a relay registers and
// when a heartbeat sees an earlier time than one before: a step of less than a second does no harm.
func (s *Store) catchUp(t *tx, registers bool) error {
	s.mu.Lock()
	back := t.now < s.latest-1000
	s.latest = t.now
	s.mu.Unlock()
	if !registers && !back {
		return nil
	}
	n, err := t.exec("retry_ahead", t.now)
	if err != nil || n == 0 {
		return err
	}
	s.log.Warn("the clock was put back: retries count from now on", "messages", n)
	_, err = t.exec("note_change")
	return err
}

func (s *Store) ahead(id string) (sighting, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.sightings[id]
	return before, known
}

func (s *Store) setAhead(seen map[string]sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sightings = seen
}

package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// Beat registers a relay or extends its lease; see outbox.Store.
func (s *Store) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (orders outbox.Orders, err error) {
	err = s.write(ctx, func(t *tx) error {
		if orders, err = s.beat(t, info, known); err != nil || info.Stopping {
			return err
		}
		if err := s.catchUp(t, info.Beat == 0); err != nil {
			return err
		}
		return s.lapseAhead(t, info.ID.String())
	})
	if err != nil {
		return outbox.Orders{}, s.explain("heartbeat", err)
	}
	if info.Stopping {
		s.forgetLanes(info.ID)
	}
	s.lookForFile(ctx)
	return orders, nil
}

func (s *Store) beat(t *tx, info outbox.RelayInfo, known []outbox.Token) (orders outbox.Orders, err error) {
	id := info.ID.String()
	var current int64
	err = t.row("beat_current", []any{id}, &current)
	registered := err == nil
	registers := info.Beat == 0 && !info.Stopping
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return orders, err
	case info.Stopping && registered:
		return orders, leave(t, id, known)
	case !registered && !registers:
		return orders, fmt.Errorf("relay %s: %w", info.ID, outbox.ErrLeaseLost)
	case registered && info.Beat < current:
		return orders, nil // overtaken by a later one, which knew more
	case registered:
		if err := giveBackUnknown(t, id, current, known); err != nil {
			return orders, err
		}
		_, err = t.exec("beat_extend", id, t.now, info.Beat, lanesJSON(info.Lanes), countersJSON(info.Counters))
	default:
		_, err = t.exec("beat_register", id, t.now, milliseconds(info.Lease), info.Beat, info.Host, info.PID, info.Version, info.Engine,
			lanesJSON(info.Lanes), countersJSON(info.Counters), s.cfg.settings(info.Settings))
		if err == nil {
			_, err = t.exec("set_archive", s.cfg.keeps())
		}
		if err == nil {
			_, err = t.exec("note_change") // lanes of others may take what they could not before
		}
	}
	if err == nil && registers {
		orders.Holders, err = holders(t, id)
	}
	return orders, err
}

// leave gives back everything that is not named, and removes the relay if nothing is left.
func leave(t *tx, id string, known []outbox.Token) error {
	const all = 1<<63 - 1
	if err := giveBackUnknown(t, id, all, known); err != nil {
		return err
	}
	if _, err := t.exec("beat_leave", id); err != nil {
		return err
	}
	_, err := t.exec("note_change")
	return err
}

// giveBackUnknown gives back the claims that are older than the beat before this one and not named: one whose answer was
// lost would be renewed for ever. No lapse is counted.
func giveBackUnknown(t *tx, id string, before int64, known []outbox.Token) error {
	n, err := t.exec("beat_give_back", id, before, array(known))
	if err != nil || n == 0 {
		return err
	}
	_, err = t.exec("wake")
	return err
}

func holders(t *tx, asking string) (list []outbox.Holder, err error) {
	err = t.rows("holders", []any{asking}, func(rows *sql.Rows) error {
		var id string
		var h outbox.Holder
		var seen, until int64
		if err := rows.Scan(&id, &h.Host, &h.PID, &seen, &until, &h.Messages); err != nil || h.Messages == 0 {
			return err
		}
		h.Relay, err = outbox.ParseID(id)
		h.Seen, h.LeaseLeft = duration(max(t.now-seen, 0)), duration(until-t.now)
		list = append(list, h)
		return err
	})
	return list, err
}

func countersJSON(counters map[string]int64) string {
	if counters == nil {
		return "{}"
	}
	text, _ := json.Marshal(counters) // numbers do not fail
	return string(text)
}

// Maintain removes dedup keys that block nothing any more, and what the archive has kept for long enough; see outbox.Store. Of
// the archive it removes what it can in a second, in transactions of q.Limit messages.
func (s *Store) Maintain(ctx context.Context, q outbox.MaintainQuery) (report outbox.MaintainReport, err error) {
	err = s.write(ctx, func(t *tx) error {
		n, err := t.exec("expire_dedup", t.now, q.Limit)
		if err != nil {
			return err
		}
		report.DedupExpired, report.More = int(n), int(n) == q.Limit
		if s.cfg.KeepDelivered > 0 { // another relay may keep nothing, and have said so since
			_, err = t.exec("set_archive", s.cfg.keeps())
		}
		return err
	})
	if err != nil {
		return outbox.MaintainReport{}, s.explain("maintain", err)
	}
	expired, more, err := s.expireArchive(ctx, q)
	report.ArchiveExpired, report.More = expired, report.More || more
	if err != nil {
		return report, s.explain("maintain", err)
	}
	return report, nil
}

// Wait returns at the given time, or early after a commit of InTx, and while Listen runs when anybody has published,
// given back or freed something; see outbox.Store.
func (s *Store) Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return seen, err
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return seen, ctx.Err()
	case <-timer.C:
	case <-s.signal.after(seen):
	}
	return s.signal.seen(), nil
}

// lookInterval is how often Listen looks for news: a read of one row, some 30 µs.
const lookInterval = 20 * time.Millisecond

// Listen looks every 20 ms whether other connections, of this process or another, have published, given back or freed
// something, and wakes Wait. SQLite cannot notify; without this relays would find out by their next poll.
func (s *Store) Listen(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	var before [2]int64
	for {
		var now [2]int64
		if err := s.db.QueryRowContext(ctx, s.sql["news"]).Scan(&now[0], &now[1]); err == nil && now != before {
			before = now
			s.signal.wake()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

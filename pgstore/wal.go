package pgstore

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

var (
	//go:embed queries/wal.sql
	walSQL string
	//go:embed queries/wal_slot.sql
	walSlotSQL string
)

// WALStatus is the state of the WAL engine.
type WALStatus struct {
	Slot   *WALSlot // nil: no relay streams
	Relays []WALRelay
}

// WALSlot is the temporary replication slot of the relay that streams, as the server has it.
type WALSlot struct {
	Name        string
	PID         int   // of the server's process
	Retained    int64 // bytes of WAL that the server keeps for it
	Unconfirmed int64 // bytes of WAL that the relay has not confirmed
}

// WALRelay is a relay with the WAL engine.
type WALRelay struct {
	ID   outbox.ID
	Host string
	PID  int
	Live bool // its lease lasts
	Seen time.Duration
	// LeaseLeft is negative when it has lapsed.
	LeaseLeft time.Duration
	// Streams: it lives, and the slot is its.
	Streams bool
	Stream  StreamReport // as of Seen
}

// Overdue is for how long a heartbeat of the relay is; see outbox.RelayStatus.
func (r *WALRelay) Overdue() time.Duration {
	return (&outbox.RelayStatus{Live: r.Live, Seen: r.Seen, LeaseLeft: r.LeaseLeft}).Overdue()
}

// WAL tells which relays have the WAL engine, which of them streams and how far it is.
func (s *Store) WAL(ctx context.Context) (status WALStatus, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(walSQL, s.cfg.Schema), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		if status.Relays, err = pgx.CollectRows(rows, scanWALRelay); err != nil {
			return err
		}
		status.Slot, err = s.walSlot(ctx, tx)
		return err
	})
	status.ask()
	return status, err
}

// ask finds out by the slot which relay streams. What relays tell may be as old as a lease: one that was killed says that it streams.
func (w *WALStatus) ask() {
	for i := range w.Relays {
		r := &w.Relays[i]
		switch {
		case r.Stream.State != stateStreaming:
		case w.Slot != nil && w.Slot.PID == r.Stream.ServerPID:
			r.Streams = r.Live
		default:
			r.Stream.State, r.Stream.Since = stateCutOff, time.Time{}
			r.Stream.Problem = "the server has its connection no more: it was killed, or will say why with its next heartbeat"
		}
	}
}

// walSlot is nil if no relay streams.
func (s *Store) walSlot(ctx context.Context, tx pgx.Tx) (*WALSlot, error) {
	slot := &WALSlot{}
	err := s.queryRow(ctx, tx, walSlotSQL).Scan(&slot.Name, &slot.PID, &slot.Retained, &slot.Unconfirmed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the slot of the relay that streams: %w", err)
	}
	return slot, nil
}

func scanWALRelay(row pgx.CollectableRow) (r WALRelay, err error) {
	var streaming bool
	var seen, left int64
	var stream string
	if err := row.Scan(&r.ID, &r.Host, &r.PID, &r.Live, &streaming, &seen, &left, &stream); err != nil {
		return r, err
	}
	r.Seen, r.LeaseLeft = micros(seen), micros(left)
	if err := json.Unmarshal([]byte(stream), &r.Stream); err != nil {
		return r, fmt.Errorf("stream of relay %s: %w", r.ID, err)
	}
	return r, nil
}

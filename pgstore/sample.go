package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

var (
	//go:embed queries/sampler.sql
	samplerSQL string
	//go:embed queries/sample.sql
	sampleSQL string
)

// sampleBound is how many rows of a table a sample looks at.
const sampleBound = 10_000

var _ outbox.Sampler = (*Store)(nil)

// Sample looks at the outbox if it is for this relay to look; see outbox.Sampler. Up to 10,000 messages of a state are
// counted, above that it is the statistics' running count of rows.
func (s *Store) Sample(ctx context.Context, relay outbox.ID) (sample *outbox.Sample, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		var chosen outbox.ID
		rows, err := tx.Query(ctx, render(samplerSQL, s.cfg.Schema), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, []any{&chosen}, func() error { return nil }); err != nil {
			return fmt.Errorf("who samples: %w", err)
		}
		if chosen != relay {
			return nil
		}
		sample, err = s.sample(ctx, tx, sampleBound)
		return err
	})
	return sample, err
}

func (s *Store) sample(ctx context.Context, tx pgx.Tx, bound int64) (*outbox.Sample, error) {
	sm := &outbox.Sample{}
	var ready, waiting, due, retrying, scheduled, dead, allReady, allWaiting, allDead, oldest int64
	err := tx.QueryRow(ctx, render(sampleSQL, s.cfg.Schema), pgx.QueryExecModeExec, bound).Scan(&ready, &sm.InFlight, &waiting,
		&due, &retrying, &scheduled, &dead, &allReady, &allWaiting, &allDead, &oldest)
	if err != nil {
		return nil, err
	}
	sm.Ready, sm.Dead = boundedDepth(ready, bound, allReady), boundedDepth(dead, bound, allDead)
	all := boundedDepth(waiting, bound, allWaiting)
	part := func(n int64) outbox.Depth { // above the bound those that were looked at speak for the others
		d := all
		d.Messages = all.Messages * n / max(waiting, 1)
		return d
	}
	sm.Retrying, sm.Scheduled = part(retrying), part(scheduled)
	if due := part(due); due.Messages > 0 {
		sm.Ready.Messages += due.Messages
		sm.Ready.Estimated = sm.Ready.Estimated || due.Estimated
		sm.Ready.AtLeast = !sm.Ready.Estimated && (sm.Ready.AtLeast || due.AtLeast)
	}
	sm.OldestEligible = micros(oldest)
	return sm, s.sampleMore(ctx, tx, sm)
}

// sampleMore looks at what is small, or bounded by itself.
func (s *Store) sampleMore(ctx context.Context, tx pgx.Tx, sm *outbox.Sample) error {
	var running sample
	if err := running.read(ctx, tx, s.cfg.Schema); err != nil {
		return err
	}
	sm.Entered, sm.Left = running.published, running.left
	var st outbox.Status
	if err := s.heldKeys(ctx, tx, &st); err != nil {
		return err
	}
	sm.HeldKeys, sm.HeldLongest = st.HeldKeys, st.HeldLongest
	relays, err := s.relayList(ctx, tx)
	if err != nil {
		return err
	}
	for _, r := range relays {
		if r.Live {
			sm.Relays++
		}
	}
	slot, err := s.walSlot(ctx, tx)
	if err != nil {
		return err
	}
	if slot != nil {
		sm.SlotRetained, sm.SlotUnconfirmed = slot.Retained, slot.Unconfirmed
	}
	topics, err := s.unhandled(ctx, tx, relays)
	for _, t := range topics {
		sm.Unhandled.Messages += t.Messages
		sm.Unhandled.AtLeast = sm.Unhandled.AtLeast || t.AtLeast
	}
	return err
}

// boundedDepth is what was counted, or above the bound the running count unless that is refuted.
func boundedDepth(counted, bound, running int64) outbox.Depth {
	switch {
	case counted <= bound:
		return outbox.Depth{Messages: counted}
	case running <= bound:
		return outbox.Depth{Messages: bound, AtLeast: true}
	}
	return outbox.Depth{Messages: running, Estimated: true}
}

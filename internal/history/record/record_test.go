package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// script is a Store that answers what a test says.
type script struct {
	outbox.Store
	batch   outbox.Batch
	answers []outbox.Settled
	err     error
	told    []string // of the optional methods
}

func (s *script) Claim(context.Context, outbox.ClaimQuery) (outbox.Batch, error) {
	return s.batch, s.err
}

func (s *script) Settle(context.Context, []outbox.Outcome) ([]outbox.Settled, error) {
	return s.answers, s.err
}

func (s *script) Beat(context.Context, outbox.RelayInfo, []outbox.Token) (outbox.Orders, error) {
	return outbox.Orders{}, s.err
}

type preparing struct{ script }

func (s *preparing) Prepare(context.Context) error { s.told = append(s.told, "prepare"); return s.err }
func (s *preparing) Listen(context.Context)        { s.told = append(s.told, "listen") }

// log is a history whose events can be read back as words.
type log struct {
	*history.Log
	dir string
}

func newLog(t *testing.T) log {
	t.Helper()
	l := log{dir: t.TempDir()}
	var err error
	if l.Log, err = history.Open(l.dir, "p"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (l log) expect(t *testing.T, want ...string) []history.Event {
	t.Helper()
	events, err := history.ReadDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Outcome)))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
	return events
}

func delivery(seq int64, ref outbox.ClaimRef) *outbox.Delivery {
	return &outbox.Delivery{Message: outbox.Message{ID: outbox.NewID(), Topic: "t", Key: "k", Payload: []byte("x")}, Seq: seq, Claim: ref}
}

func TestSettlementsAreRecorded(t *testing.T) {
	ctx, l := t.Context(), newLog(t)
	ref := outbox.ClaimRef{ID: 7, Relay: outbox.NewID()}
	ds := []*outbox.Delivery{delivery(1, ref), delivery(2, ref)}
	inner := &script{batch: outbox.Batch{Claims: []outbox.Claim{{Ref: ref, Deliveries: ds}}}}
	s := NewStore(inner, l.Log)
	if _, err := s.Claim(ctx, outbox.ClaimQuery{Relay: ref.Relay, Destination: "d"}); err != nil {
		t.Fatal(err)
	}
	outcomes := []outbox.Outcome{{Claim: ref, Seq: 1, Kind: outbox.Delivered}, {Claim: ref, Seq: 2, Kind: outbox.Died}}
	inner.err = errors.New("connection lost")
	if _, err := s.Settle(ctx, outcomes); !errors.Is(err, inner.err) {
		t.Fatal(err)
	}
	inner.err, inner.answers = nil, []outbox.Settled{outbox.SettledFenced, outbox.SettledBefore}
	if _, err := s.Settle(ctx, outcomes); err != nil {
		t.Fatal(err)
	}
	events := l.expect(t, "claimed", "settling died", "settling died", "fenced delivered", "settled died")
	last := events[4]
	if last.Message != ds[1].ID.String() || last.Destination != "d" || last.Claim != 7 || last.Relay != ref.Relay.String() || last.Since > events[1].At {
		t.Fatalf("%+v", last)
	}
	if len(s.held)+len(s.begun) != 0 {
		t.Fatal("settled messages are kept in memory")
	}
}

// A message that somebody else has ended is not settled by the relay that asks too late.
func TestEndedByOthersIsNotRecorded(t *testing.T) {
	ctx, l := t.Context(), newLog(t)
	ref := outbox.ClaimRef{ID: 7, Relay: outbox.NewID()}
	inner := &script{batch: outbox.Batch{Claims: []outbox.Claim{{Ref: ref, Deliveries: []*outbox.Delivery{delivery(1, ref)}}}}}
	s := NewStore(inner, l.Log)
	if _, err := s.Claim(ctx, outbox.ClaimQuery{Relay: ref.Relay, Destination: "d"}); err != nil {
		t.Fatal(err)
	}
	inner.answers = []outbox.Settled{outbox.SettledBefore}
	if _, err := s.Settle(ctx, []outbox.Outcome{{Claim: ref, Seq: 1, Kind: outbox.Delivered}}); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "claimed")
}

func TestLeasesAreRecorded(t *testing.T) {
	ctx, l := t.Context(), newLog(t)
	inner := &script{}
	s := NewStore(inner, l.Log)
	info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute}
	beat := func() { _, _ = s.Beat(ctx, info, nil) }
	before := history.Now()
	beat()
	inner.err = errors.New("database away")
	beat()
	inner.err = fmt.Errorf("beat: %w", outbox.ErrLeaseLost)
	beat()
	_, _ = s.Claim(ctx, outbox.ClaimQuery{Relay: info.ID})
	inner.err, info.Stopping = nil, true
	beat()
	first := l.expect(t, "leased", "lease_lost", "lease_lost")[0]
	if first.Until < before+int64(time.Minute) || first.Until > first.At+int64(time.Minute) {
		t.Fatalf("%+v, asked after %d", first, before)
	}
}

func TestDeliveriesAreRecorded(t *testing.T) {
	ctx, l := t.Context(), newLog(t)
	results := []error{nil, outbox.Drop("not ours"), errors.New("no")}
	s := NewSink(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error {
		if len(results) == 0 {
			panic("broken handler")
		}
		err := results[0]
		results = results[1:]
		return err
	}), "d", l.Log)
	d := delivery(1, outbox.ClaimRef{ID: 1, Relay: outbox.NewID()})
	for range 3 {
		_ = s.Deliver(ctx, d)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Deliver(ctx, d)
	}()
	events := l.expect(t, "delivery_begun", "delivery_accepted", "delivery_begun", "delivery_accepted",
		"delivery_begun", "delivery_failed", "delivery_begun", "delivery_failed")
	if e := events[0]; e.Payload != history.Hash([]byte("x")) || e.Key != "k" || e.Topic != "t" || e.Seq != 1 || e.Message != d.ID.String() {
		t.Fatalf("%+v", e)
	}
}

func TestOptionalMethodsArePassedOn(t *testing.T) {
	l := newLog(t)
	inner := &preparing{}
	inner.err = outbox.ErrSchemaMissing
	s := NewStore(inner, l.Log)
	if err := s.Prepare(t.Context()); !errors.Is(err, outbox.ErrSchemaMissing) {
		t.Fatal(err)
	}
	s.Listen(t.Context())
	if !slices.Equal(inner.told, []string{"prepare", "listen"}) {
		t.Fatal(inner.told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plain := NewStore(&script{}, l.Log)
	plain.Listen(ctx)
	if err := plain.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAHistoryThatCannotBeWrittenPanics(t *testing.T) {
	l := newLog(t)
	l.Close()
	defer func() {
		if recover() == nil {
			t.Fatal("went on without a history")
		}
	}()
	_ = NewSink(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil }), "d", l.Log).
		Deliver(t.Context(), delivery(1, outbox.ClaimRef{ID: 1, Relay: outbox.NewID()}))
}

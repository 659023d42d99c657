package sqlitestore

import (
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// testRelay is a relay with one lane, d, for everything.
type testRelay struct {
	store *Store
	info  outbox.RelayInfo
	known []outbox.Token
}

func newTestRelay(t testing.TB, s *Store, lease time.Duration) *testRelay {
	t.Helper()
	r := &testRelay{store: s, info: outbox.RelayInfo{ID: outbox.NewID(), Lease: lease, Host: "host", Settings: "rules",
		Lanes: []outbox.LaneInfo{{Destination: "d", Topics: outbox.TopicSet{{Pattern: ">", In: true}}}}}}
	if _, err := s.Beat(t.Context(), r.info, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *testRelay) beat(t testing.TB) {
	t.Helper()
	r.info.Beat++
	if _, err := r.store.Beat(t.Context(), r.info, r.known); err != nil {
		t.Fatal(err)
	}
}

func (r *testRelay) batch(t testing.TB, limit int) outbox.Batch {
	t.Helper()
	q := outbox.ClaimQuery{Relay: r.info.ID, Destination: "d", Token: outbox.NewID(), Limit: limit, Bytes: 16 << 20}
	r.known = append(r.known, q.Token)
	b, err := r.store.Claim(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// claim claims until nothing comes any more, or so many have come.
func (r *testRelay) claim(t testing.TB, most int) (ds []*outbox.Delivery) {
	t.Helper()
	for empty := 0; len(ds) < most && empty < 3; {
		b := r.batch(t, min(most-len(ds), 500))
		for _, c := range b.Claims {
			ds = append(ds, c.Deliveries...)
		}
		if len(b.Claims) == 0 && !b.More {
			empty++
		}
	}
	return ds
}

func (r *testRelay) settle(t testing.TB, kind outbox.OutcomeKind, ds ...*outbox.Delivery) {
	t.Helper()
	var outcomes []outbox.Outcome
	for _, d := range ds {
		o := outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: kind}
		if kind == outbox.Retried || kind == outbox.Died {
			o.Attempts, o.Class, o.Text = d.Attempt, "error", "it failed"
		}
		outcomes = append(outcomes, o)
	}
	answers, err := r.store.Settle(t.Context(), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(answers, func(a outbox.Settled) bool { return a != outbox.SettledNow }); i >= 0 {
		t.Fatalf("%v of message %d: %v", kind, ds[i].Seq, answers[i])
	}
}

func payloads(ds []*outbox.Delivery) (texts []string) {
	for _, d := range ds {
		texts = append(texts, string(d.Payload))
	}
	return texts
}

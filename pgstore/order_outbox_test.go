package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// orderOutbox is a store, how to publish into it, the first message's headers corrupt or not, and how to end the lease of
// every relay.
type orderOutbox struct {
	store interface {
		outbox.Store
		outbox.Operator
	}
	publish func(t *testing.T, corrupt bool, ms ...outbox.Message)
	lapse   func(t *testing.T)
}

func newMemoryOutbox() orderOutbox {
	var ahead time.Duration
	store := outboxtest.NewStore(outboxtest.WithClock(func() time.Time { return time.Now().Add(ahead) }))
	return orderOutbox{store, func(t *testing.T, _ bool, ms ...outbox.Message) {
		if _, err := store.Publish(t.Context(), ms...); err != nil {
			t.Fatal(err)
		}
	}, func(*testing.T) { ahead += time.Hour }} // no relay runs yet that would look at the clock meanwhile
}

func newDatabaseOutbox(t *testing.T, url string, conn *pgx.Conn) orderOutbox {
	return orderOutbox{newStore(t, url, nil), publishTo(conn), func(t *testing.T) {
		exec(t, conn, "update outbox.relay set lease_until = clock_timestamp() - interval '1 second'")
	}}
}

// headHolder is a relay that has claimed the head.
type headHolder struct {
	o    orderOutbox
	info outbox.RelayInfo
	head *outbox.Delivery
}

func (o orderOutbox) claimHead(t *testing.T) headHolder {
	t.Helper()
	lane := outbox.LaneInfo{Destination: "default", Topics: outbox.TopicSet{{Pattern: ">", In: true}}}
	h := headHolder{o: o, info: outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute, Lanes: []outbox.LaneInfo{lane}}}
	h.beat(t)
	batch, err := o.store.Claim(t.Context(), outbox.ClaimQuery{Relay: h.info.ID, Destination: "default", Token: outbox.NewID(), Limit: 1, Bytes: 1 << 20})
	if err != nil || len(batch.Claims) != 1 || string(batch.Claims[0].Deliveries[0].Payload) != "head" {
		t.Fatalf("claimed %+v, %v", batch, err)
	}
	h.head = batch.Claims[0].Deliveries[0]
	return h
}

func (h headHolder) beat(t *testing.T) {
	t.Helper()
	if _, err := h.o.store.Beat(t.Context(), h.info, nil); err != nil {
		t.Fatal(err)
	}
}

// settle settles the head, and the relay is gone.
func (h headHolder) settle(t *testing.T, outcome outbox.Outcome) {
	t.Helper()
	outcome.Claim, outcome.Seq, outcome.Class, outcome.Text = h.head.Claim, h.head.Seq, outbox.ClassError, "planned"
	settled, err := h.o.store.Settle(t.Context(), []outbox.Outcome{outcome})
	if err != nil || settled[0] != outbox.SettledNow {
		t.Fatalf("settled %v, %v", settled, err)
	}
	h.info.Stopping = true
	h.beat(t)
}

// crashes makes the head a suspect and lets a relay die with it once more.
func crashes(t *testing.T, o orderOutbox, _ outbox.Order) {
	for range outbox.SuspectLapses + 1 {
		o.claimHead(t)
		o.lapse(t)
	}
}

// orderAttempts are the failed attempts of a head that an operator finds.
const orderAttempts = 3

func headDies(t *testing.T, o orderOutbox, order outbox.Order) {
	o.claimHead(t).settle(t, outbox.Outcome{Kind: outbox.Died, Attempts: orderAttempts, Holds: order == outbox.OrderPark})
}

func headWaits(t *testing.T, o orderOutbox, _ outbox.Order) {
	o.claimHead(t).settle(t, outbox.Outcome{Kind: outbox.Retried, Attempts: orderAttempts, Delay: time.Hour})
}

func headIsReady(*testing.T, orderOutbox, outbox.Order) {}

// operatedCases are what operators do to the head. When they want it delivered its topic is paused, to see its key.
func operatedCases() []orderCase {
	type step = func(*testing.T, orderOutbox, outbox.Order)
	change := func(first step, verb func(o orderOutbox) func(context.Context, outbox.Change) (outbox.ChangeReport, error)) step {
		return func(t *testing.T, o orderOutbox, order outbox.Order) {
			first(t, o, order)
			c := outbox.Change{Filter: outbox.Filter{Topic: "a"}, Reason: "test"}
			if r, err := verb(o)(t.Context(), c); err != nil || r.Changed != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	paused := func(first step) step {
		return func(t *testing.T, o orderOutbox, order outbox.Order) {
			first(t, o, order)
			if _, err := o.store.Pause(t.Context(), outbox.Pause{Topic: "a"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	redrive := func(o orderOutbox) func(context.Context, outbox.Change) (outbox.ChangeReport, error) {
		return o.store.Redrive
	}
	retry := func(o orderOutbox) func(context.Context, outbox.Change) (outbox.ChangeReport, error) {
		return o.store.Retry
	}
	discard := func(o orderOutbox) func(context.Context, outbox.Change) (outbox.ChangeReport, error) {
		return o.store.Discard
	}
	return []orderCase{
		{row: "an operator redrives it", happens: paused(change(headDies, redrive))},
		{row: "an operator retries it", happens: paused(change(headWaits, retry))},
		{row: "an operator discards it", happens: change(headIsReady, discard)},
		{row: "an operator discards it", happens: change(headWaits, discard)},
		{row: "an operator discards it", happens: change(headDies, discard)},
		{row: "its topic is paused", happens: paused(headIsReady)},
	}
}

// state says in the table's words what Why tells of the head that its outcome, if it had one, does not.
func (o orderOutbox) state(t *testing.T, outcome outbox.OutcomeKind, head outbox.ID) string {
	t.Helper()
	w, err := o.store.Why(t.Context(), outbox.WhyQuery{ID: head})
	if err != nil {
		t.Fatal(err)
	}
	m := w.Message
	switch {
	case outcome == outbox.Retried && m != nil && m.Lapses >= outbox.SuspectLapses:
		return ", alone"
	case outcome != 0:
		return ""
	case m == nil:
		return "gone"
	case m.State == "waiting" && m.Due <= 0 && m.Attempts == orderAttempts:
		return "due, its attempts kept"
	case m.State == "waiting" && m.Due <= 0 && m.Attempts == 0 && m.Generation == 1:
		return "due, its attempts from the start"
	}
	return "stays"
}

package pgstore

import (
	"context"
	"slices"
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestRelaysWithOtherRulesAreSeen: two relays tell of their rules with their heartbeats, and a look compares them.
func TestRelaysWithOtherRulesAreSeen(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	start := func(attempts int) {
		relay, err := outbox.NewRelay(newStore(t, url, nil), outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })),
			&outbox.Config{MaxAttempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- relay.Run(ctx) }()
		<-relay.Ready()
	}
	start(5)
	start(7)
	st, err := newStore(t, url, nil).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := st.MixedSettings(); !slices.Equal(got, []string{"default"}) {
		t.Errorf("%q of %+v", got, st.Relays)
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

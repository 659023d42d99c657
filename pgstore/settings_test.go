package pgstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestRelaysWithOtherRulesAreSeen: two relays tell of their rules, and of what they keep, with their heartbeats, and a look
// compares them.
func TestRelaysWithOtherRulesAreSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts int
		keep     time.Duration
		want     []string
	}{
		"the same":          {5, 0, nil},
		"other attempts":    {7, 0, []string{"default"}},
		"another retention": {5, 24 * time.Hour, []string{"default"}},
	} {
		t.Run(name, func(t *testing.T) { checkSettingsSeen(t, c.attempts, c.keep, c.want) })
	}
}

// checkSettingsSeen compares a relay of 5 attempts that keeps nothing with another one.
func checkSettingsSeen(t *testing.T, attempts int, keep time.Duration, want []string) {
	t.Parallel()
	url := migratedDatabase(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	start := func(attempts int, keep time.Duration) {
		relay, err := outbox.NewRelay(newStore(t, url, &Config{KeepDelivered: keep}), outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })),
			&outbox.Config{MaxAttempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- relay.Run(ctx) }()
		<-relay.Ready()
	}
	start(5, 0)
	start(attempts, keep)
	st, err := newStore(t, url, nil).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := st.MixedSettings(); !slices.Equal(got, want) {
		t.Errorf("%q of %+v", got, st.Relays)
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// TestClockPutBack: when the database's clock goes back, a claim that froze before is ended as any, no age is below zero, and what is
// claimed and retried by the new clock goes on.
func TestClockPutBack(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgdev.Config{SetClock: true})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrateDatabase)
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL(name)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 3, 2)
	relay := newTestRelay(t, store, ">")
	failed := relay.claim(t, 1)
	settleAs(t, relay, failed, outbox.Outcome{Kind: outbox.Retried, Attempts: 1, Delay: time.Second})
	freezeInClaim(t, url, relay.info.ID)
	if err := server.SetClock(-10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the frozen claim is ended", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		batch, err := store.Claim(ctx, relay.query(1))
		if err == nil {
			for _, c := range batch.Claims {
				settleAs(t, relay, c.Deliveries, outbox.Outcome{Kind: outbox.Retried, Attempts: 1, Delay: time.Millisecond})
			}
		}
		return err == nil && len(batch.Claims) > 0
	})
	relay.beat(t) // a time from after it
	if _, err := store.Maintain(t.Context(), outbox.MaintainQuery{Limit: 10}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "what was retried by the old clock is due after its backoff", func() bool {
		batch, err := store.Claim(t.Context(), relay.query(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Claims {
			for _, d := range c.Deliveries {
				if d.Seq == failed[0].Seq {
					return true
				}
			}
		}
		return false
	})
	status, err := store.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.OldestEligible < 0 {
		t.Errorf("the oldest message has waited for %v", status.OldestEligible)
	}
	relays, err := store.Relays(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range relays {
		if r.Seen < 0 {
			t.Errorf("a relay was seen %v ago", r.Seen)
		}
	}
}

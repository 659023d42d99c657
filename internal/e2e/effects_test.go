package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/failpoint"
	"github.com/outboxrelay/outbox/pgstore"
)

// applier is a relay whose handler writes an effect and settles its message in one transaction. Every so many-th first
// attempt forgets to commit and returns nil.
func applier(ctx context.Context, c *crashtest.Child) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(context.WithoutCancel(ctx), p.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.Open(ctx, p.URL, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	handler := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, "insert into effect values ($1)", d.ID); err != nil {
			return err
		}
		if err := store.SettleTx(ctx, tx, d); err != nil {
			return err
		}
		if p.FailEvery > 0 && d.Attempt == 1 && d.Seq%int64(p.FailEvery) == 0 {
			return nil
		}
		failpoint.Hit("effect.settled")
		err = tx.Commit(ctx)
		failpoint.Hit("effect.committed")
		return err
	})
	relay, err := outbox.NewRelay(store, []outbox.Route{{Name: "lane", Topics: []string{">"}, Sink: handler, Slots: p.Slots}},
		&outbox.Config{Lease: p.Lease, Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: 10 * time.Millisecond}})
	if err != nil {
		return err
	}
	go func() {
		<-relay.Ready()
		_ = c.Announce("ready")
	}()
	return relay.Run(ctx)
}

func (d *database) publishEffects(t *testing.T, n, keys int) {
	t.Helper()
	d.exec(t, "create table effect (id uuid)")
	d.exec(t, fmt.Sprintf(`insert into outbox.message (id, topic, key, payload)
		select gen_random_uuid(), 'effect', case when g %% 2 = 0 then 'k' || g %% %d end, '' from generate_series(1, %d) g`, keys, n))
}

// appliedOnce compares the application's table with what was published.
func (d *database) appliedOnce(want int) error {
	rows, different := d.count(context.Background(), "select count(*) from effect"),
		d.count(context.Background(), "select count(distinct id) from effect")
	if rows != want || different != want {
		return fmt.Errorf("%d effects of %d messages, %d were published", rows, different, want)
	}
	return nil
}

// TestEffectsUnderRandomKills: two relays, killed at random while their handlers commit.
func TestEffectsUnderRandomKills(t *testing.T) {
	plays(t)
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	db := newDatabase(t)
	h := crashtest.New(t)
	const messages = 3000
	db.publishEffects(t, messages, 50)
	p := plan{URL: db.url, Lease: time.Second, Slots: 10, FailEvery: 50}
	start := func() *crashtest.Process {
		a := h.Start("applier", crashtest.Options{Env: p.env()})
		a.Await("ready")
		return a
	}
	fleet := []*crashtest.Process{start(), start()}
	kills := 0
	for db.count(t.Context(), everything) > 0 && kills < 8 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond) // the moment is what is random
		i := random.IntN(len(fleet))
		fleet[i].Kill()
		fleet[i] = start()
		kills++
	}
	db.drained(t, 3*time.Minute)
	for _, a := range fleet {
		a.Terminate()
	}
	t.Logf("%d kills", kills)
	if kills < 2 {
		t.Error("the relays were too fast to be killed")
	}
	if err := db.appliedOnce(messages); err != nil {
		t.Error(err)
	}
	if n := db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
}

// TestEffectCountFires: the count finds an effect too many and one too few.
func TestEffectCountFires(t *testing.T) {
	db := newDatabase(t)
	db.publishEffects(t, 2, 1)
	db.exec(t, "insert into effect select id from outbox.message")
	if err := db.appliedOnce(2); err != nil {
		t.Fatal(err)
	}
	db.exec(t, "insert into effect select id from outbox.message limit 1")
	if err := db.appliedOnce(2); err == nil {
		t.Error("an effect that was repeated is not found")
	}
	db.exec(t, "delete from effect where id = (select id from outbox.message limit 1)")
	if err := db.appliedOnce(2); err == nil {
		t.Error("an effect that is missing is not found")
	}
}

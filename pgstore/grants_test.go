package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
)

var (
	sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")
	roleName = regexp.MustCompile(`\boutbox_[a-z_]+\b`)
)

// documentedRoles runs the SQL of docs/security.md in a database, and returns how to connect in a role of it. Roles belong
// to the whole server, so theirs get names of their own.
func documentedRoles(t *testing.T, url string) func(role string) *pgxpool.Pool {
	t.Helper()
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	owner := connect(t, url)
	suffix := "_" + strings.ReplaceAll(outbox.NewID().String(), "-", "")[20:]
	made := map[string]bool{}
	for _, block := range sqlBlock.FindAllStringSubmatch(string(text), -1) {
		exec(t, owner, roleName.ReplaceAllStringFunc(block[1], func(name string) string {
			made[name+suffix] = true
			return name + suffix
		}))
	}
	t.Cleanup(func() {
		for name := range made {
			if _, err := owner.Exec(context.Background(), fmt.Sprintf("drop owned by %[1]s; drop role %[1]s", name)); err != nil {
				t.Error(err)
			}
		}
	})
	return func(role string) *pgxpool.Pool {
		t.Helper()
		if !made[role+suffix] {
			t.Fatalf("docs/security.md makes no role %s", role)
		}
		cfg, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig.RuntimeParams["role"] = role + suffix
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
}

func may(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// mayNot demands that each statement fails for want of a right.
func mayNot(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := pool.Exec(t.Context(), sql)
		if state, _ := sqlError(err); state != "42501" {
			t.Errorf("%s: %v, want insufficient_privilege", sql, err)
		}
	}
}

func storeOn(t *testing.T, pool *pgxpool.Pool) *Store {
	t.Helper()
	store, err := New(pool, &Config{Migrate: MigrateCheck})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// TestDocumentedRoles: with the rights that docs/security.md gives, each role can do its work, and nothing else.
func TestDocumentedRoles(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	as := documentedRoles(t, url)
	owner := connect(t, url)
	exec(t, owner, "create table effect (id uuid); grant insert on effect to public")

	sql := as("outbox_sql_publisher")
	may(t, sql, "select outbox.publish('ok', 'x', key => 'k')")
	may(t, sql, "select outbox.publish_json('ok', '{}', dedup_key => 'd', delay => interval '1 millisecond')")
	mayNot(t, sql, "select from outbox.message", "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', '')",
		"select outbox.publish_row(gen_random_uuid(), false, 'a', null, '', '{}', null, null, null, null, null, null, null)",
		"select outbox.pause(topic => 'a')", "select outbox.settle_tx(gen_random_uuid(), 1, gen_random_uuid(), 1, null)")

	golang := as("outbox_publisher")
	publisher := newPublisher(t, &PublishConfig{LockKeys: true})
	err := pgx.BeginFunc(t.Context(), golang, func(tx pgx.Tx) error {
		_, err := publisher.Publish(t.Context(), tx, outbox.Message{Topic: "ok", Key: "k", DedupKey: "other"},
			outbox.Message{Topic: "fails.once"}, outbox.Message{Topic: "dies"}, outbox.Message{Topic: "effect"})
		return err
	})
	if err == nil {
		err = pgx.BeginFunc(t.Context(), golang, func(tx pgx.Tx) error {
			_, err := newPublisher(t, nil).Publish(t.Context(), tx, make500("ok")...)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	mayNot(t, golang, "select from outbox.message", "delete from outbox.message", "insert into outbox.dedup select from outbox.dedup",
		"select outbox.publish('a', '')", "select outbox.discard(everything => true, reason => 'x')")

	relayPool, handlerPool := as("outbox_relay"), as("outbox_handler")
	store := storeOn(t, relayPool)
	exec(t, owner, "update outbox.setting set value = outbox.home() where name = 'home'")
	for _, f := range store.Check(t.Context()) {
		if !f.OK {
			t.Errorf("%s: %s: %s", f.Check, f.Text, f.Fix)
		}
	}
	relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		switch {
		case d.Topic == "fails.once" && d.Attempt == 1:
			return errors.New("once")
		case d.Topic == "dies" && d.Generation == 0:
			return outbox.Permanent(errors.New("for good"))
		case d.Topic == "effect":
			return pgx.BeginFunc(ctx, handlerPool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "insert into effect values ($1)", d.ID); err != nil {
					return err
				}
				return store.SettleTx(ctx, tx, d)
			})
		}
		return nil
	})), &outbox.Config{Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(want int64) {
		t.Helper()
		var total outbox.Counts
		for deadline := time.Now().Add(20 * time.Second); total.Delivered < want; {
			n, err := relay.RunUntilIdle(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if total.Delivered += n.Delivered; time.Now().After(deadline) {
				t.Fatalf("delivered %d of %d", total.Delivered, want)
			}
		}
	}
	deliver(505)
	if n := value[int](t, owner, "select count(*) from effect"); n != 1 {
		t.Errorf("%d effects", n)
	}
	if _, err := store.Maintain(t.Context(), outbox.MaintainQuery{Limit: 100}); err != nil {
		t.Error(err)
	}
	mayNot(t, relayPool, "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', '')", "select outbox.publish('a', '')",
		"select outbox.redrive(everything => true)", "delete from outbox.control", "select from outbox.operation", "drop table outbox.message",
		"update outbox.setting set value = ''", "select outbox.set_notify('off')")
	mayNot(t, handlerPool, "select from outbox.claim", "delete from outbox.message", "select outbox.publish('a', '')")

	viewer := storeOn(t, as("outbox_viewer"))
	look := func(s *Store) {
		t.Helper()
		_, statusErr := s.Status(t.Context())
		_, keysErr := s.Keys(t.Context(), 10)
		_, relaysErr := s.Relays(t.Context())
		_, depthsErr := s.Depths(t.Context())
		id := value[outbox.ID](t, owner, "select id from outbox.dead")
		_, whyErr := s.Why(t.Context(), outbox.WhyQuery{ID: id})
		_, listErr := s.List(t.Context(), outbox.ListQuery{})
		_, deadErr := s.DeadLetters(t.Context())
		_, operationsErr := s.Operations(t.Context(), 10)
		_, partitionsErr := s.Partitions(t.Context())
		if err := errors.Join(statusErr, keysErr, relaysErr, depthsErr, whyErr, listErr, deadErr, operationsErr, partitionsErr); err != nil {
			t.Error(err)
		}
	}
	look(viewer)
	mayNot(t, viewer.pool, "delete from outbox.message", "select outbox.redrive(everything => true)", "select outbox.pause(topic => 'a')", "select outbox.purge()",
		"update outbox.relay set pid = 1", "select outbox.publish('a', '')", "select nextval('outbox.seq')")

	operator := storeOn(t, as("outbox_operator"))
	look(operator)
	if _, err := operator.Pause(t.Context(), outbox.Pause{Topic: "ok"}); err != nil {
		t.Error(err)
	}
	if _, err := operator.Resume(t.Context(), outbox.Pause{Topic: "ok"}); err != nil {
		t.Error(err)
	}
	if r, err := operator.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: "dies"}}); err != nil || r.Changed != 1 {
		t.Errorf("redrive %+v, %v", r, err)
	}
	deliver(1)
	if _, err := operator.Retry(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}}); err != nil {
		t.Error(err)
	}
	may(t, sql, "select outbox.publish('unwanted', '')")
	if r, err := operator.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: "unwanted"}, Reason: "test"}); err != nil || r.Changed != 1 {
		t.Errorf("discard %+v, %v", r, err)
	}
	if _, err := operator.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{States: []outbox.State{outbox.StateDead}}}); err != nil {
		t.Error(err)
	}
	if _, err := operator.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}, Destination: "default"}); err != nil {
		t.Error(err)
	}
	mayNot(t, operator.pool, "delete from outbox.message", "delete from outbox.dead", "select outbox.publish('a', '')",
		"delete from outbox.operation", "select outbox.set_notify('off')", "select outbox.change('redrive', '{}', '', '', true, 1, 1, 1)")
}

func make500(topic string) []outbox.Message {
	ms := make([]outbox.Message, 500)
	for i := range ms {
		ms[i].Topic = topic
	}
	return ms
}

// TestCheckNamesTheGrant: a right that a relay lacks is found, with the line that gives it.
func TestCheckNamesTheGrant(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	as := documentedRoles(t, url)
	owner := connect(t, url)
	store := storeOn(t, as("outbox_relay"))
	role := value[string](t, connectPool(t, store.pool), "select current_user::text")
	for _, c := range []struct{ revoke, grant string }{
		{"revoke delete on outbox.waiting from ", "grant delete on table outbox.waiting to "},
		{"revoke select on outbox.control from ", "grant select on table outbox.control to "},
		{"revoke update on outbox.message from ", "grant update on table outbox.message to "},
		{"revoke select on outbox.migration from ", "grant select on table outbox.migration to "},
		{"revoke usage on schema outbox from ", "grant usage on schema outbox to "},
	} {
		exec(t, owner, c.revoke+role)
		fix := fixes(t, store)["privileges"]
		if fix != c.grant+role+";" {
			t.Errorf("after %s the fix is %q", c.revoke, fix)
		}
		exec(t, owner, fix)
		if fix := fixes(t, store)["privileges"]; fix != "" {
			t.Errorf("after the fix: %q", fix)
		}
	}
}

func connectPool(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

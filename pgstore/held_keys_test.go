package pgstore

import (
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestHeldKeysOfStatus: status counts the keys that Keys lists as retrying, due and parked, each once, and takes nothing
// for held that is not.
func TestHeldKeysOfStatus(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	counted := func(what string, keys int64) {
		t.Helper()
		st := outbox.Status{}
		tx := begin(t, conn)
		defer func() { _ = tx.Rollback(t.Context()) }()
		if err := store.heldKeys(t.Context(), tx, &st); err != nil || st.HeldKeys != (outbox.Depth{Messages: keys}) {
			t.Errorf("%s: %+v, %v, want %d", what, st.HeldKeys, err, keys)
		}
		if held := st.HeldLongest; keys > 0 && (held < time.Hour || held > time.Hour+time.Minute) || keys == 0 && held != 0 {
			t.Errorf("%s: the longest for %v", what, held)
		}
		listed, err := store.Keys(t.Context(), 0)
		if err != nil || int64(len(listed.Holds)) != keys {
			t.Errorf("%s: Keys lists %+v, %v", what, listed.Holds, err)
		}
	}
	counted("an empty outbox", 0)
	exec(t, conn, `insert into outbox.waiting (id, topic, key, payload, holds, attempts, available_at, first_failed_at, error_class, last_error)
		select gen_random_uuid(), topic, key, '', holds, attempts, clock_timestamp() + interval '10 hours', failed_at, 'error', 'no'
		from (values ('a', 'blocked', true, 20, clock_timestamp() - interval '1 hour'),
		             ('a', 'parked', true, 1, clock_timestamp() - interval '1 minute'),
		             ('free', 'unordered', true, 1, clock_timestamp() - interval '2 hours'),
		             ('nobody', 'unhandled', true, 1, clock_timestamp() - interval '2 hours'),
		             ('a', 'scheduled', false, 0, null),
		             ('a', null, false, 3, clock_timestamp() - interval '2 hours')) v(topic, key, holds, attempts, failed_at)`)
	exec(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, holds, attempts, published_at, died_at, error_class, last_error)
		select nextval('outbox.seq'), gen_random_uuid(), topic, key, '', '{}', holds, 3, clock_timestamp(), died_at, 'crash', 'no'
		from (values ('a', 'parked', true, clock_timestamp() - interval '30 minutes'),
		             ('a', 'parked', true, clock_timestamp() - interval '20 minutes'),
		             ('a', 'dead', false, clock_timestamp() - interval '2 hours'),
		             ('free', 'unordered', true, clock_timestamp() - interval '2 hours')) v(topic, key, holds, died_at)`)
	lane := outbox.LaneInfo{Destination: "lane", Topics: outbox.TopicSet{{Pattern: "a", In: true}, {Pattern: "free", In: true}},
		Unordered: outbox.TopicSet{{Pattern: "free", In: true}}}
	(&testRelay{store: store, info: outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute, Lanes: []outbox.LaneInfo{lane}}}).beat(t)
	counted("a blocked and a parked key", 2)
	for _, change := range []func() (outbox.ChangeReport, error){
		func() (outbox.ChangeReport, error) {
			return store.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{Key: "parked"}, Reason: "test"})
		},
		func() (outbox.ChangeReport, error) {
			return store.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}})
		},
	} {
		if r, err := change(); err != nil || r.Changed == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	counted("the parked one discarded, the dead one redriven", 2)
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// withNext are the migrations, and one after the newest as it may be: tables get columns, and there is a table that programs do
// not know. This program is of the version before it, and works with it.
func withNext(t *testing.T) []migration {
	t.Helper()
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	next := migration{version: len(all) + 1, name: "newer"}
	var b strings.Builder
	for _, table := range []string{"message", "waiting", "dead", "archive", "claim", "relay", "dedup", "operation", "control"} {
		fmt.Fprintf(&b, "alter table outbox.%s add column added_%d int not null default 7;\n", table, next.version)
	}
	fmt.Fprintf(&b, "create table outbox.added_%d (id int primary key);\n", next.version)
	next.up = []sqlFile{{"100_newer.sql", b.String()}}
	return append(all, next)
}

// newer brings the schema to the version after the newest, which this program works with or not.
func newer(t *testing.T, url string, works bool) (version int) {
	t.Helper()
	conn, all := connect(t, url), withNext(t)
	if _, err := applyMissing(t.Context(), conn, DefaultSchema, all); err != nil {
		t.Fatal(err)
	}
	if !works {
		exec(t, conn, "update outbox.migration set min_compatible = version where version = $1", len(all))
	}
	return len(all)
}

// upgrading is a relay on a recorded outbox.
type upgrading struct {
	t       *testing.T
	url     string
	store   *Store
	mu      sync.Mutex
	order   map[string][]string // payloads delivered, by topic
	headers map[string]map[string]string
	stop    context.CancelFunc
	done    chan error
}

func upgrade(t *testing.T, url string, cfg *Config) *upgrading {
	t.Helper()
	cfg.Logger, cfg.KeepDelivered = slog.New(slog.DiscardHandler), outbox.KeepForever
	u := &upgrading{t: t, url: url, store: newStore(t, url, cfg), order: map[string][]string{}, headers: map[string]map[string]string{}, done: make(chan error, 1)}
	relay, err := outbox.NewRelay(u.store, []outbox.Route{{Name: "lane", Topics: []string{">"}, Slots: 10, Sink: outbox.SinkFunc(u.deliver)}},
		&outbox.Config{Logger: cfg.Logger, PollInterval: 50 * time.Millisecond, Rules: []outbox.Rule{{Topics: []string{topicParked}, Order: outbox.OrderPark}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	u.stop = stop
	go func() { u.done <- relay.Run(ctx) }()
	return u
}

func (u *upgrading) deliver(_ context.Context, d *outbox.Delivery) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order[d.Topic] = append(u.order[d.Topic], string(d.Payload))
	u.headers[string(d.Payload)] = d.Headers
	return nil
}

func (u *upgrading) got(topic string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.order[topic])
}

// wants waits until a topic's messages were delivered, each once, and those of a key in order.
func (u *upgrading) wants(topic string, labels []string) {
	u.t.Helper()
	waitUntil(u.t, fmt.Sprintf("%s brings %q", topic, labels), func() bool { return len(u.got(topic)) >= len(labels) })
	got := u.got(topic)
	if topic == topicReady || topic == topicDead { // not all have a key
		slices.Sort(got)
	}
	if !slices.Equal(got, labels) {
		u.t.Errorf("%s brought %q, want %q", topic, got, labels)
	}
}

func (u *upgrading) end() {
	u.t.Helper()
	u.stop()
	if err := <-u.done; err != nil {
		u.t.Error(err)
	}
}

// checkRecorded: every message of the fixture is in its state.
func checkRecorded(t *testing.T, url string) {
	t.Helper()
	store := newStore(t, url, nil)
	d, err := store.Depths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := []int64{d.Ready.Messages, d.InFlight, d.Retrying.Messages, d.Scheduled.Messages, d.Dead.Messages}
	if want := []int64{7, 2, 1, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("ready, in flight, retrying, scheduled, dead: %v, want %v", got, want)
	}
	conn := connect(t, url)
	if n := value[int](t, conn, "select count(*) from outbox.archive where outcome = 'delivered'"); n != 2 {
		t.Errorf("%d are in the archive", n)
	}
	if r := publish(t, conn, newPublisher(t, nil), recordedMessage(topicReady, "ready 4")); !r[0].Duplicate {
		t.Error("the dedup key is forgotten")
	}
}

// checkDelivered: everything comes to be delivered, what operators have to let go when they do.
func (u *upgrading) checkDelivered() {
	u.t.Helper()
	t, all := u.t, recordedLabels
	conn := connect(t, u.url)
	u.wants(topicReady, all[topicReady])
	u.wants(topicFlight, all[topicFlight])
	for _, topic := range []string{topicRetry, topicLater, topicDead, topicParked, topicPaused, topicKept} {
		if got := u.got(topic); len(got) > 0 {
			t.Errorf("%s brought %q before its time", topic, got)
		}
	}
	exec(t, conn, "update outbox.waiting set available_at = clock_timestamp()")
	u.wants(topicRetry, all[topicRetry])
	u.wants(topicLater, all[topicLater])
	must := func(_ outbox.ChangeReport, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(u.store.Resume(t.Context(), outbox.Pause{Topic: topicPaused}))
	u.wants(topicPaused, all[topicPaused])
	must(u.store.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}, Reason: "upgraded"}))
	u.wants(topicDead, all[topicDead])
	u.wants(topicParked, all[topicParked])
	must(u.store.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: topicKept}, Destination: "lane", Reason: "upgraded"}))
	u.wants(topicKept, all[topicKept])
	for topic, labels := range all {
		for _, label := range labels {
			if got := u.headers[label]["Label"]; got != label {
				t.Errorf("%s %q has the header %q", topic, label, got)
			}
		}
	}
	waitUntil(t, "everything is settled", func() bool {
		d, err := u.store.Depths(t.Context())
		return err == nil && d.Empty() && d.Dead.Messages == 0
	})
}

// TestUpgrade: a recorded outbox with messages in every state is brought to the newest version by a starting relay, and all
// of them survive and are delivered. The same with a version after that, which is compatible: so a relay of the version
// before works on while others have been upgraded.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EnginePoll, EngineWAL} {
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the schema is newer: %v", engine, ahead), func(t *testing.T) {
				t.Parallel()
				url := recordedDatabase(t)
				mode := MigrateAuto
				if byItself := engine == EngineWAL && !ahead; !byItself {
					m := newMigrator(t, connect(t, url), "")
					if _, err := m.Up(t.Context()); err != nil {
						t.Fatal(err)
					}
					if ahead {
						newer(t, url, true)
						mode = MigrateCheck
					}
					if err := m.Validate(t.Context()); err != nil {
						t.Error(err)
					}
					checkRecorded(t, url)
				}
				u := upgrade(t, url, &Config{Engine: engine, Migrate: mode})
				u.checkDelivered()
				u.end()
			})
		}
	}
}

// TestUpgradeUnderLoad: the schema gets its next version while a relay of this one delivers and a program publishes.
func TestUpgradeUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	for _, engine := range []Engine{EnginePoll, EngineWAL} {
		t.Run(engine.String(), func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			u := upgrade(t, url, &Config{Engine: engine})
			conn, p := connect(t, url), newPublisher(t, nil)
			const messages = 400
			for i := range messages {
				if i == messages/4 {
					waitUntil(t, "the relay delivers", func() bool { return len(u.got(topicReady)) > 0 })
					newer(t, url, true)
				}
				m := outbox.Message{Topic: topicReady, Key: "k" + strconv.Itoa(i%5), Payload: []byte(strconv.Itoa(i))}
				if i%10 == 0 {
					m.DedupKey = strconv.Itoa(i)
				}
				publish(t, conn, p, m)
			}
			waitUntil(t, "everything is delivered", func() bool { return len(u.got(topicReady)) >= messages })
			u.end()
			last := map[int]int{}
			for _, label := range u.got(topicReady) {
				i, err := strconv.Atoi(label)
				if err != nil {
					t.Fatal(err)
				}
				if before, known := last[i%5]; known && i <= before {
					t.Errorf("%d comes after %d", i, before)
				}
				last[i%5] = i
			}
			if n := len(u.got(topicReady)); n != messages {
				t.Errorf("%d deliveries of %d messages", n, messages)
			}
		})
	}
}

// TestSchemaTooNew: a relay whose version the schema has left behind says so and ends, whether it may migrate or not.
func TestSchemaTooNew(t *testing.T) {
	t.Parallel()
	url := recordedDatabase(t)
	if _, err := newMigrator(t, connect(t, url), "").Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	version := newer(t, url, false)
	for _, mode := range []MigrateMode{MigrateAuto, MigrateCheck} {
		u := upgrade(t, url, &Config{Migrate: mode})
		err := <-u.done
		if !errors.Is(err, outbox.ErrSchemaTooNew) || !strings.Contains(err.Error(), fmt.Sprintf("migration %d newer", version)) {
			t.Errorf("%s: %v", mode, err)
		}
		u.stop()
	}
	if n := value[int](t, connect(t, url), "select count(*) from outbox.message"); n != 9 {
		t.Errorf("%d messages are left", n)
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// setting is the variable by which a test tells its processes what to do.
const setting = "OUTBOX_TEST_E2E"

// plan is what a test wants of a process.
type plan struct {
	URL string

	// publishers
	Seed     uint64
	Messages int // until so many are committed
	Keys     int // 0: without keys
	Pause    time.Duration
	Defer    int // every so many-th message, at random, is scheduled for the next two seconds
	Topics   []string
	Bytes    int // every so many-th payload is of this size, at random; 0: none

	// relays
	Engine      pgstore.Engine
	ListenURL   string // empty: URL
	Quiet       bool   // the relay does not listen for notifications
	Lease       time.Duration
	Order       string // the policy's name; empty: the default
	Slots       int
	BatchBytes  int64
	Take        []string // of the lane; nil: everything
	Second      []string // of a second destination
	FailEvery   int      // every so many-th message fails at its first attempt
	DoomEvery   int      // every so many-th message fails for good
	AsyncSettle bool
	Keep        time.Duration // in the archive; 0: nothing
	Work        time.Duration // of each delivery
	MaxAttempts int
	Poison      int64 // the message that kills the process which delivers it
}

func (p plan) env() []string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return []string{setting + "=" + string(b)}
}

func readPlan() (p plan, err error) {
	if err = json.Unmarshal([]byte(os.Getenv(setting)), &p); err != nil {
		err = fmt.Errorf("%s: %w", setting, err)
	}
	return p, err
}

// publish commits messages in small transactions, four at a time: some are rolled back, some stay open for a
// while, so that lower seqs commit late.
func publish(ctx context.Context, c *crashtest.Child) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, p.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		return err
	}
	w := &writer{plan: p, pool: pool, publisher: publisher, log: c.Log, left: p.Messages}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { w.write(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i)))) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Announce("published")
}

// publishAtOnce commits all messages in one transaction, and tells when it is about to.
func publishAtOnce(ctx context.Context, c *crashtest.Child) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		return err
	}
	w := &writer{plan: p, publisher: publisher, log: c.Log}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	messages := w.messages(rand.New(rand.NewPCG(p.Seed, 0)), p.Messages)
	receipts, err := publisher.Publish(ctx, tx, messages...)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		messages[i].ID = r.ID
	}
	w.tell(history.Publishing, messages)
	if err := c.Announce("inserted"); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.tell(history.Committed, messages)
	return c.Announce("published")
}

type writer struct {
	plan
	pool      *pgxpool.Pool
	publisher *pgstore.Publisher
	log       *history.Log

	mu   sync.Mutex
	left int
}

// take reserves up to n of the messages that are left.
func (w *writer) take(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, w.left)
	w.left -= n
	return n
}

func (w *writer) giveBack(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left += n
}

func (w *writer) write(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		n := w.take(1 + random.IntN(5))
		if n == 0 {
			return
		}
		if err := w.transaction(ctx, random, n); err != nil {
			// The database is away, or the outcome is not known: the next transaction has other messages.
			w.giveBack(n)
			time.Sleep(20 * time.Millisecond)
		}
		if w.Pause > 0 {
			time.Sleep(w.Pause)
		}
	}
}

func (w *writer) transaction(ctx context.Context, random *rand.Rand, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tx, err := w.pool.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	messages := w.messages(random, n)
	receipts, err := w.publisher.Publish(ctx, tx, messages...)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		messages[i].ID = r.ID
	}
	if random.IntN(20) == 0 {
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
	}
	w.tell(history.Publishing, messages)
	if random.IntN(15) == 0 {
		if err := tx.Rollback(ctx); err == nil {
			w.tell(history.RolledBack, messages)
			w.giveBack(n)
		}
		return nil
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.tell(history.Committed, messages)
	return nil
}

func (w *writer) messages(random *rand.Rand, n int) []outbox.Message {
	ms := make([]outbox.Message, n)
	for i := range ms {
		ms[i] = outbox.Message{Topic: "e2e.topic", Payload: fmt.Appendf(nil, "%d %d", w.Seed, random.Uint64())}
		if w.Keys > 0 {
			ms[i].Key = fmt.Sprintf("key-%d", random.IntN(w.Keys))
		}
		if len(w.Topics) > 0 {
			ms[i].Topic = w.Topics[random.IntN(len(w.Topics))]
		}
		if w.Defer > 0 && random.IntN(w.Defer) == 0 {
			ms[i].Delay = 1 + rand.N(2*time.Second)
		}
		if w.Bytes > 0 && random.IntN(10) == 0 {
			ms[i].Payload = append(ms[i].Payload, make([]byte, random.IntN(w.Bytes))...)
		}
	}
	return ms
}

// tell writes what becomes of messages into the history.
func (w *writer) tell(kind history.Kind, ms []outbox.Message) {
	events := make([]history.Event, len(ms))
	for i, m := range ms {
		events[i] = history.Event{Kind: kind, Message: m.ID.String(), Deferred: m.Delay > 0}
		if kind == history.Publishing {
			events[i].Topic, events[i].Key, events[i].Payload = m.Topic, m.Key, history.Hash(m.Payload)
		}
	}
	if err := w.log.Append(events...); err != nil {
		panic(err)
	}
}

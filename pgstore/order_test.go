package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// orderCase is a way to bring about what a row of the table in docs/order.md says, as its only or one of its cases.
type orderCase struct {
	row      string // how it begins
	does     func(ctx context.Context, mux *outbox.Mux) error
	head     func(m *outbox.Message)
	config   func(cfg *outbox.Config)
	follower func(m *outbox.Message)
	corrupt  bool                                                  // the head's row; in a database only
	happens  func(t *testing.T, o orderOutbox, order outbox.Order) // before the relay runs
}

// Waits that no other setting of the test has.
const (
	orderBase  = time.Hour
	orderMax   = 10 * time.Hour
	orderAsked = 2 * time.Hour
)

var errPlanned = errors.New("planned")

func fails(err error) func(context.Context, *outbox.Mux) error {
	return func(context.Context, *outbox.Mux) error { return err }
}

func orderCases() []orderCase {
	lastAttempt := func(cfg *outbox.Config) { cfg.MaxAttempts = 1 }
	expired := func(m *outbox.Message) { m.TTL = time.Microsecond }
	return append(operatedCases(), []orderCase{
		{row: "it fails: an error, a time-out, a panic", does: fails(errPlanned)},
		{row: "it fails: an error, a time-out, a panic", does: func(context.Context, *outbox.Mux) error { panic("planned") }},
		{row: "it fails: an error, a time-out, a panic", does: func(ctx context.Context, _ *outbox.Mux) error {
			<-ctx.Done()
			return ctx.Err()
		}, config: func(cfg *outbox.Config) { cfg.HandlerTimeout = 5 * time.Millisecond }},
		{row: "it fails with `RetryAfter`", does: fails(outbox.RetryAfter(orderAsked, errPlanned))},
		{row: "it fails with `Permanent`", does: fails(outbox.Permanent(errPlanned))},
		{row: "it fails with `Permanent`, or cannot be decoded", head: func(m *outbox.Message) { m.Topic = "typed" }},
		{row: "it fails at its last attempt", does: fails(errPlanned), config: lastAttempt},
		{row: "it fails at its last attempt", does: fails(outbox.RetryAfter(orderAsked, errPlanned)), config: lastAttempt},
		{row: "its row cannot be read", corrupt: true},
		{row: "it expires |", head: expired},
		{row: "it expires |", head: expired, corrupt: true},
		{row: "it expires, and", head: expired, config: func(cfg *outbox.Config) {
			cfg.Rules = []outbox.Rule{{Topics: []string{">"}, OnExpired: outbox.ExpiredDead}}
		}},
		{row: "it is dropped", does: fails(outbox.Drop("planned"))},
		{row: "its handler or destination is unavailable", does: fails(outbox.Unavailable(errPlanned))},
		{row: "nobody handles its topic", head: func(m *outbox.Message) { m.Topic = "nobody" }},
		{row: "it is scheduled for later", head: func(m *outbox.Message) { m.Delay = time.Hour }},
		{row: "it has no key, and fails", does: fails(outbox.Permanent(errPlanned)),
			head: func(m *outbox.Message) { m.Key = "" }, follower: func(m *outbox.Message) { m.Key = "" }},
		{row: "its relay dies with it alone, after", happens: crashes},
		{row: "its relay dies with it alone, at its last", happens: crashes, config: lastAttempt},
	}...)
}

var orders = []outbox.Order{outbox.OrderSkip, outbox.OrderBlock, outbox.OrderPark, outbox.OrderNone}

// TestOrderTable does what each row of the table in docs/order.md says, under each order, with both stores, and compares
// what becomes of the head and its key with what is written there.
func TestOrderTable(t *testing.T) {
	t.Parallel()
	table := readOrderTable(t)
	url := migratedDatabase(t)
	conn := connect(t, url)
	exec(t, conn, "alter table outbox.message drop constraint message_headers")
	exec(t, conn, "alter table outbox.waiting drop constraint waiting_headers")
	walked := map[string]bool{}
	for i, c := range orderCases() {
		row, cells := findRow(t, table, c.row)
		walked[row] = true
		for at, order := range orders {
			for name, o := range map[string]orderOutbox{"memory": newMemoryOutbox(), "postgres": newDatabaseOutbox(t, url, conn)} {
				if c.corrupt && name == "memory" {
					continue
				}
				t.Run(fmt.Sprintf("%d %s %v %s", i, strings.Trim(c.row, "| "), order, name), func(t *testing.T) {
					exec(t, conn, "truncate outbox.message, outbox.waiting, outbox.dead, outbox.claim, outbox.relay, outbox.control")
					if got := o.walk(t, c, order); got != cells[at] {
						t.Errorf("%q, the table says %q", got, cells[at])
					}
				})
			}
		}
	}
	for row := range table {
		if !walked[row] {
			t.Errorf("nothing shows that the row %q is true", row)
		}
	}
}

// readOrderTable returns the cells of each row of the table in docs/order.md.
func readOrderTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/order.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "|---|---|---|---|---|\n")
	rows, _, found := strings.Cut(after, "<!-- end -->")
	table := map[string][]string{}
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 1+len(orders) {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		table[cells[0]+" |"] = cells[1:]
	}
	if !found || len(table) == 0 {
		t.Fatal("docs/order.md has no table")
	}
	return table
}

func findRow(t *testing.T, table map[string][]string, begins string) (row string, cells []string) {
	t.Helper()
	for name, cells := range table {
		if strings.HasPrefix(name, begins) {
			return name, cells
		}
	}
	t.Fatalf("docs/order.md has no row that begins with %q", begins)
	return "", nil
}

func publishTo(conn *pgx.Conn) func(t *testing.T, corrupt bool, ms ...outbox.Message) {
	return func(t *testing.T, corrupt bool, ms ...outbox.Message) {
		publisher, err := NewPublisher(nil)
		if err != nil {
			t.Fatal(err)
		}
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := publisher.Publish(t.Context(), tx, ms...); err != nil || !corrupt {
				return err
			}
			_, err := tx.Exec(t.Context(), "update outbox.message set headers = '[]' where payload = 'head'")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// walk delivers a head and a follower until nothing is to be done, and says what became of them.
func (o orderOutbox) walk(t *testing.T, c orderCase, order outbox.Order) string {
	t.Helper()
	watched, delivered := &watchedStore{Store: o.store, heads: map[int64]bool{}}, false
	mux := outbox.NewMux()
	mux.Handle("a", func(ctx context.Context, d *outbox.Delivery) error { return c.does(ctx, mux) })
	outbox.On(mux, outbox.NewTopic[int]("typed"), func(context.Context, *outbox.Delivery, int) error { return nil })
	mux.Handle("b", func(context.Context, *outbox.Delivery) error { delivered = true; return nil })
	cfg := &outbox.Config{Order: order, Logger: slog.New(slog.DiscardHandler),
		Retry: outbox.RetryPolicy{Base: orderBase, Max: orderMax, DisableJitter: true}}
	if c.config != nil {
		c.config(cfg)
	}
	relay, err := outbox.NewRelay(watched, outbox.To(mux), cfg)
	if err != nil {
		t.Fatal(err)
	}
	head, follower := outbox.Message{Topic: "a", Key: "k", Payload: []byte("head")}, outbox.Message{Topic: "b", Key: "k", Payload: []byte("follower")}
	if c.head != nil {
		c.head(&head)
	}
	if c.follower != nil {
		c.follower(&follower)
	}
	head.ID = outbox.NewID()
	o.publish(t, c.corrupt, head, follower)
	if c.happens != nil {
		c.happens(t, o, order)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := relay.RunUntilIdle(ctx); err != nil {
		t.Fatal(err)
	}
	key := "key held"
	if delivered {
		key = "key free"
	}
	return watched.what() + o.state(t, watched.last.Kind, head.ID) + "; " + key
}

// watchedStore remembers what became of the message with the payload head.
type watchedStore struct {
	outbox.Store
	mu    sync.Mutex
	heads map[int64]bool
	last  outbox.Outcome
	count int
}

func (s *watchedStore) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	batch, err := s.Store.Claim(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range batch.Claims {
		for _, d := range c.Deliveries {
			s.heads[d.Seq] = string(d.Payload) == "head"
		}
	}
	return batch, err
}

func (s *watchedStore) Settle(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range os {
		if s.heads[o.Seq] {
			s.last = o
			s.count++
		}
	}
	return s.Store.Settle(ctx, os)
}

// what says in the table's words what became of the head.
func (s *watchedStore) what() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := s.last; {
	case o.Kind == 0:
		return ""
	case s.count > 1 && o.Kind != outbox.GivenBack:
		return fmt.Sprintf("%d outcomes, %v the last", s.count, o.Kind)
	case o.Kind == outbox.Retried:
		waits := map[time.Duration]string{orderBase: "retried", orderAsked: "retried when asked", orderMax: "retried at the longest wait"}
		if waits[o.Delay] != "" {
			return waits[o.Delay]
		}
		return fmt.Sprintf("retried after %v", o.Delay)
	case o.Kind == outbox.Died:
		return "dead"
	case o.Kind == outbox.GivenBack:
		return "given back"
	default:
		return o.Kind.String()
	}
}

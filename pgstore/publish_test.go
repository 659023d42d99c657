package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
)

var execModes = map[string]pgx.QueryExecMode{
	"cache statement": pgx.QueryExecModeCacheStatement,
	"cache describe":  pgx.QueryExecModeCacheDescribe,
	"describe exec":   pgx.QueryExecModeDescribeExec,
	"exec":            pgx.QueryExecModeExec,
	"simple protocol": pgx.QueryExecModeSimpleProtocol,
}

func newPublisher(t testing.TB, cfg *PublishConfig) *Publisher {
	t.Helper()
	p, err := NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func begin(t testing.TB, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// publish publishes in a transaction of its own.
func publish(t testing.TB, conn *pgx.Conn, p *Publisher, ms ...outbox.Message) []outbox.Receipt {
	t.Helper()
	receipts, err := tryPublish(t.Context(), conn, pgx.TxOptions{}, p, ms...)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func tryPublish(ctx context.Context, conn *pgx.Conn, options pgx.TxOptions, p *Publisher, ms ...outbox.Message) (receipts []outbox.Receipt, err error) {
	err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		receipts, err = p.Publish(ctx, tx, ms...)
		return err
	})
	return receipts, err
}

// hostile are texts that a wrong encoding would change.
var hostile = []string{
	`NULL`, `null`, ` `, ` a `, `"`, `\`, `\\`, `'`, `''`, `"a\"b"`, `{}`, `{"a","b"}`, `a,b`, `$1`, `?`, `%s`, `a;b--c`,
	`\x41`, `E'\n'`, "é", "日本", "\U0001F600", "\u2028", `<&>`, `${x}`, strings.Repeat(`"\`, 100),
}

// everyMessage covers every field, hostile texts, and payloads of all bytes, of one byte and of none.
func everyMessage() []outbox.Message {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	ms := []outbox.Message{
		{Topic: "t"},
		{Topic: "t", Payload: []byte{}},
		{Topic: "t.u-v_W.9", Key: "k", Payload: all, ContentType: "application/x", MaxAttempts: 3},
		{Topic: "t", Payload: []byte{0}, TTL: 90 * time.Minute, MaxAttempts: outbox.Unlimited},
		{Topic: "t", Payload: []byte("\xff\xfe"), ExpiresAt: time.Date(2100, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))},
		{Topic: "t", BrokerTTL: time.Nanosecond, Payload: bytes.Repeat([]byte("x"), outbox.DefaultMaxPayload)},
		{Topic: "t", TTL: 1<<63 - 1},
		{Topic: "t", Headers: map[string]string{"Content-Type": "x/y", "empty": ""}, ContentType: "x/y"},
		{Topic: "t", ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
	}
	for i, text := range hostile {
		ms = append(ms, outbox.Message{Topic: "hostile", Key: text, Payload: []byte(text), Headers: map[string]string{"h": text, fmt.Sprint("h", i): text}})
	}
	return ms
}

// special turns plain messages into ones that need publish_row and look the same in the table but for the dedup key.
func special(ms []outbox.Message) []outbox.Message {
	ms = slices.Clone(ms)
	for i := range ms {
		switch i % 3 {
		case 0:
			ms[i].DedupKey = fmt.Sprint(ms[i].Key, i)
		case 1:
			ms[i].ID = outbox.NewID()
		case 2:
			ms[i].DeliverAt = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		}
	}
	return ms
}

type storedMessage struct {
	Seq         int64
	ID          outbox.ID
	Topic       string
	Key         *string
	Payload     []byte
	Headers     map[string]string
	DedupKey    *string
	MaxAttempts *int
	BrokerTTL   *time.Duration
	ExpiresAt   *time.Time
}

func stored(t testing.TB, conn *pgx.Conn) []storedMessage {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
		expires_at from outbox.message order by seq`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedMessage])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checkStored compares rows with what was published.
func checkStored(t testing.TB, found []storedMessage, ms []outbox.Message, receipts []outbox.Receipt) {
	t.Helper()
	if len(found) != len(ms) || len(receipts) != len(ms) {
		t.Fatalf("%d rows and %d receipts of %d messages", len(found), len(receipts), len(ms))
	}
	for i, m := range ms {
		if problem := found[i].differs(m, receipts[i]); problem != "" {
			t.Errorf("message %d (topic %s, key %q): %s", i, m.Topic, m.Key, problem)
		}
	}
}

func (s *storedMessage) differs(m outbox.Message, receipt outbox.Receipt) string {
	headers := maps.Clone(m.Headers)
	if m.ContentType != "" && m.Headers["Content-Type"] == "" {
		headers = map[string]string{"content-type": m.ContentType}
	}
	switch {
	case receipt.Duplicate || s.ID != receipt.ID || !m.ID.IsZero() && m.ID != s.ID:
		return fmt.Sprintf("id %s, receipt %+v", s.ID, receipt)
	case s.Topic != m.Topic || text(s.Key) != m.Key || text(s.DedupKey) != m.DedupKey:
		return fmt.Sprintf("topic %q key %q dedup key %q", s.Topic, text(s.Key), text(s.DedupKey))
	case s.Payload == nil || !bytes.Equal(s.Payload, m.Payload):
		return fmt.Sprintf("payload %d bytes, want %d", len(s.Payload), len(m.Payload))
	case !maps.Equal(s.Headers, headers):
		return fmt.Sprintf("headers %v, want %v", s.Headers, headers)
	case (s.MaxAttempts == nil) != (m.MaxAttempts == 0):
		return "max_attempts"
	case s.MaxAttempts != nil && *s.MaxAttempts != m.MaxAttempts%outbox.Unlimited:
		return fmt.Sprintf("max_attempts %d", *s.MaxAttempts)
	case (s.BrokerTTL == nil) != (m.BrokerTTL == 0) || s.BrokerTTL != nil && *s.BrokerTTL != max(m.BrokerTTL, time.Microsecond):
		return "broker_ttl"
	case (s.ExpiresAt == nil) != (m.TTL == 0 && m.ExpiresAt.IsZero()):
		return "expires_at"
	case !m.ExpiresAt.IsZero() && !s.ExpiresAt.Equal(m.ExpiresAt):
		return fmt.Sprintf("expires_at %s", s.ExpiresAt)
	case m.TTL > 0 && time.Until(*s.ExpiresAt) > m.TTL:
		return fmt.Sprintf("expires_at %s", s.ExpiresAt)
	}
	return ""
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestPublishExecModes(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, migratedDatabase(t))
			cfg := conn.Config()
			cfg.DefaultQueryExecMode = mode
			caller, err := pgx.ConnectConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer caller.Close(context.Background())
			p := newPublisher(t, nil)
			plain := everyMessage()
			receipts := publish(t, caller, p, plain...)
			mixed := special(plain)
			receipts = append(receipts, publish(t, caller, p, mixed...)...)
			for _, m := range plain {
				receipts = append(receipts, publish(t, caller, p, m)...)
			}
			checkStored(t, stored(t, conn), slices.Concat(plain, mixed, plain), receipts)
		})
	}
}

// TestPublishTTL: the life is counted from publish, by the database's clock.
func TestPublishTTL(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	publish(t, conn, newPublisher(t, nil), outbox.Message{Topic: "t", TTL: time.Hour}, outbox.Message{Topic: "t", TTL: 3 * time.Hour, DedupKey: "d"})
	for i, life := range values[time.Duration](t, conn, "select expires_at - published_at from outbox.message order by seq") {
		if want := []time.Duration{time.Hour, 3 * time.Hour}[i]; (life - want).Abs() > time.Second {
			t.Errorf("message %d lives %s, want %s", i, life, want)
		}
	}
}

// TestPublishOrder: rows are numbered in the order given, across statements, with little memory.
func TestPublishOrder(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "set work_mem = '64kB'")
	ms := make([]outbox.Message, 2*chunkMessages+7)
	for i := range ms {
		ms[i] = outbox.Message{Topic: "t", Key: fmt.Sprint(i), Payload: bytes.Repeat([]byte{byte(i)}, i%400)}
	}
	ms[chunkMessages+3].DedupKey = "makes the second statement the other one"
	receipts := publish(t, conn, newPublisher(t, nil), ms...)
	checkStored(t, stored(t, conn), ms, receipts)
}

// TestPublishBytesChunk: calls beyond the bytes of a statement are split, and nothing is lost at the seams.
func TestPublishBytesChunk(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	var ms []outbox.Message
	for i := range 11 {
		ms = append(ms, outbox.Message{Topic: "t", Payload: bytes.Repeat([]byte{byte(i)}, outbox.DefaultMaxPayload)})
	}
	receipts := publish(t, conn, newPublisher(t, nil), ms...)
	checkStored(t, stored(t, conn), ms, receipts)
}

func TestPublishNothing(t *testing.T) {
	receipts, err := newPublisher(t, nil).Publish(t.Context(), finishedTx{})
	if len(receipts) != 0 || err != nil {
		t.Errorf("Publish() = %v, %v", receipts, err)
	}
}

// finishedTx fails the test's expectation of no SQL by a nil pointer.
type finishedTx struct{ pgx.Tx }

func TestPublishRefusals(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, &PublishConfig{MaxPayload: 10})
	cases := map[string]outbox.Message{
		"Topic":       {Topic: "a b"},
		"Payload":     {Topic: "t", Payload: make([]byte, 11)},
		"Key":         {Topic: "t", Key: strings.Repeat("k", 10_000)},
		"DedupKey":    {Topic: "t", DedupKey: "a\x00"},
		"Headers":     {Topic: "t", Headers: map[string]string{"Outbox-Id": "x"}},
		"DeliverAt":   {Topic: "t", DeliverAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"ExpiresAt":   {Topic: "t", ExpiresAt: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
		"MaxAttempts": {Topic: "t", MaxAttempts: -1},
	}
	for field, m := range cases {
		// A transaction without a connection: any SQL would be a panic.
		_, err := p.Publish(t.Context(), finishedTx{}, outbox.Message{Topic: "fine"}, m)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestPublisherConfig(t *testing.T) {
	for field, cfg := range map[string]PublishConfig{
		"Schema":     {Schema: "Bad"},
		"MaxPayload": {MaxPayload: outbox.MaxPayloadCeiling + 1},
		"Notify":     {Notify: 9},
	} {
		_, err := NewPublisher(&cfg)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestPublishLargestPayload: the limit is configurable up to 64 MiB and the tables take that.
func TestPublishLargestPayload(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("moves 64 MiB")
	}
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, &PublishConfig{MaxPayload: outbox.MaxPayloadCeiling})
	publish(t, conn, p, outbox.Message{Topic: "t", Payload: make([]byte, outbox.MaxPayloadCeiling)})
	if n := value[int](t, conn, "select octet_length(payload) from outbox.message"); n != outbox.MaxPayloadCeiling {
		t.Errorf("%d bytes", n)
	}
}

func TestPublishWithoutTransaction(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	if _, err := p.Publish(t.Context(), nil, outbox.Message{Topic: "t"}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("nil: %v", err)
	}
	// Neither of these is a pgx.Tx, so passing one to Publish does not compile.
	for _, outside := range []any{conn, &pgxpool.Pool{}, &pgxpool.Conn{}} {
		if _, ok := outside.(pgx.Tx); ok {
			t.Errorf("%T is a pgx.Tx", outside)
		}
	}
	tx := begin(t, conn)
	commit(t, tx)
	if _, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t"}); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("finished: %v", err)
	}
	if _, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t", DedupKey: "d"}); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("finished: %v", err)
	}
}

func TestPublishSchemaMissing(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	p := newPublisher(t, nil)
	for name, prepare := range map[string]string{"no schema": "select 1", "no tables": "create schema outbox"} {
		exec(t, conn, prepare)
		for _, m := range []outbox.Message{{Topic: "t"}, {Topic: "t", DedupKey: "d"}} {
			tx := begin(t, conn)
			_, err := p.Publish(t.Context(), tx, m)
			if !errors.Is(err, outbox.ErrSchemaMissing) || !strings.Contains(err.Error(), "outbox migrate up") {
				t.Errorf("%s: %v", name, err)
			}
			tx.Rollback(t.Context())
		}
	}
	if n := value[int](t, conn, "select count(*) from pg_class where relnamespace = 'outbox'::regnamespace"); n != 0 {
		t.Errorf("publishing made %d relations", n)
	}
}

func TestPublishRollback(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	tx := begin(t, conn)
	if _, err := newPublisher(t, nil).Publish(t.Context(), tx, outbox.Message{Topic: "t"}, outbox.Message{Topic: "t", ID: outbox.NewID(), Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting) + (select count(*) from outbox.dedup)"); n != 0 {
		t.Errorf("%d rows", n)
	}
	listener.expect(t, 0)
}

// TestPublishWithRow: the message and a row of the application appear together.
func TestPublishWithRow(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, other := connect(t, url), connect(t, url)
	exec(t, conn, "create table orders (id int)")
	const both = "select (select count(*) from orders), (select count(*) from outbox.message)"
	tx := begin(t, conn)
	if _, err := tx.Exec(t.Context(), "insert into orders values (1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := newPublisher(t, nil).Publish(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1} {
		var orders, messages int
		if err := other.QueryRow(t.Context(), both).Scan(&orders, &messages); err != nil {
			t.Fatal(err)
		}
		if orders != want || messages != want {
			t.Errorf("%d orders, %d messages, want %d", orders, messages, want)
		}
		if want == 0 {
			commit(t, tx)
		}
	}
}

// TestPublishErrorAborts: an error of the database names what was being done and leaves the transaction aborted, so
// that nobody commits the half of it.
func TestPublishErrorAborts(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "alter table outbox.message add constraint no_bad check (topic <> 'bad')")
	tx := begin(t, conn)
	_, err := newPublisher(t, nil).Publish(t.Context(), tx, outbox.Message{Topic: "bad"})
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.ConstraintName != "no_bad" || !strings.HasPrefix(err.Error(), "publish message ") {
		t.Errorf("%v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit: %v", err)
	}
}

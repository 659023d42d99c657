package pgstore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// NotifyMode is how publishing wakes relays. Polling finds every message without it, only later.
type NotifyMode uint8

const (
	// NotifyPublish notifies inside the publishing transaction; relays wake when it commits.
	NotifyPublish NotifyMode = iota
	// NotifyTrigger leaves it to the triggers that the SQL function set_notify('trigger') makes.
	NotifyTrigger
	// NotifyOff does not notify. Commits that notify take turns in the whole database, so this is for very many
	// small transactions, and for databases behind a pooler through which relays can't listen.
	NotifyOff
)

// PublishConfig configures a Publisher. The zero value is fine.
type PublishConfig struct {
	// Schema holds the outbox. Default "outbox".
	Schema string
	// MaxPayload is the highest number of payload bytes of a message. Default 1 MiB, at most 64 MiB.
	MaxPayload int
	// Notify is how relays are woken. Default NotifyPublish.
	Notify NotifyMode
	// LockKeys makes transactions that publish the same key take turns, from the publishing to the end of each, so that
	// the messages of a key are delivered in the order of the commits also when transactions race for it. Every
	// publisher of these keys must do it: the SQL functions do with the setting lock_keys. A transaction holds at most
	// 64 locks; unrelated keys share one now and then. One call cannot deadlock with another, but two transactions
	// that call several times can: see docs/publishing-order.md. Default false.
	LockKeys bool
}

func (c *PublishConfig) withDefaults() (PublishConfig, error) {
	var cfg PublishConfig
	if c != nil {
		cfg = *c
	}
	if cfg.Schema == "" {
		cfg.Schema = DefaultSchema
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = outbox.DefaultMaxPayload
	}
	return cfg, cfg.validate()
}

func (c *PublishConfig) validate() error {
	if err := checkSchemaName(c.Schema); err != nil {
		return err
	}
	if c.MaxPayload < 1 || c.MaxPayload > outbox.MaxPayloadCeiling {
		return refuse("MaxPayload", strconv.Itoa(c.MaxPayload), fmt.Sprintf("1 to %d bytes", outbox.MaxPayloadCeiling))
	}
	if c.Notify > NotifyOff {
		return refuse("Notify", strconv.Itoa(int(c.Notify)), "NotifyPublish, NotifyTrigger or NotifyOff")
	}
	return nil
}

var (
	//go:embed queries/publish_one.sql
	publishOneSQL string
	//go:embed queries/publish_insert.sql
	publishInsertSQL string
	//go:embed queries/publish_rows.sql
	publishRowsSQL string
	//go:embed queries/lock_keys.sql
	lockKeysSQL string
	//go:embed queries/in_transaction.sql
	inTransactionSQL string
)

// Publisher publishes messages inside the caller's transactions. It has no connection of its own, never begins,
// commits or migrates, and is safe for concurrent use.
//
// All messages of a call are checked before anything is sent. When an error comes from the database, the
// transaction is aborted, as after any failed statement: return the error and roll back.
type Publisher struct {
	cfg PublishConfig

	oneSQL, inTransactionSQL string
	locking, plain           chunkStatements
	lockSQL                  string
}

// NewPublisher makes a Publisher. A nil cfg means the defaults. The error is a *outbox.FieldError.
func NewPublisher(cfg *PublishConfig) (*Publisher, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	text := func(sql string) string { return render(uncommented(sql), c.Schema) }
	return &Publisher{
		cfg:              c,
		oneSQL:           text(publishOneSQL),
		plain:            chunkStatements{text(publishInsertSQL), text(publishRowsSQL)},
		locking:          chunkStatements{text(withLockKeys(publishInsertSQL)), text(withLockKeys(publishRowsSQL))},
		lockSQL:          text(lockKeysSQL),
		inTransactionSQL: text(inTransactionSQL),
	}, nil
}

// Publish publishes the messages in the pgx transaction, in the order given, and returns a receipt for each. Up to
// a thousand messages take one round trip, in every pgx.QueryExecMode.
//
// A caller's id that is taken is outbox.ErrDuplicateID, a missing schema outbox.ErrSchemaMissing, a refused value a
// *outbox.FieldError. A DedupKey that is taken is a receipt that says so; publishing waits for the transaction that
// is about to take it, and under REPEATABLE READ and SERIALIZABLE may fail with SQLSTATE 40001 then.
func (p *Publisher) Publish(ctx context.Context, tx pgx.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	if tx == nil {
		return nil, fmt.Errorf("publish: tx is nil: %w", outbox.ErrNoTransaction)
	}
	return p.publish(ctx, pgxSession{tx}, p.notifies(), ms)
}

// PublishSQL is Publish for a transaction of database/sql, with any driver for PostgreSQL. A driver that does not
// watch the context while it waits for an answer, such as lib/pq, waits for a hanging server longer than ctx.
func (p *Publisher) PublishSQL(ctx context.Context, tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	if tx == nil {
		return nil, fmt.Errorf("publish: tx is nil: %w", outbox.ErrNoTransaction)
	}
	return p.publish(ctx, sqlSession{tx}, p.notifies(), ms)
}

// PublishQuerier is PublishSQL for what an ORM offers in place of a *sql.Tx. It proves first, by a statement more,
// that q is inside a transaction: a *sql.DB or *sql.Conn without one fails with outbox.ErrNoTransaction.
func (p *Publisher) PublishQuerier(ctx context.Context, q Querier, ms ...outbox.Message) ([]outbox.Receipt, error) {
	if q == nil {
		return nil, fmt.Errorf("publish: the querier is nil: %w", outbox.ErrNoTransaction)
	}
	return p.publish(ctx, provenSession{sqlSession{q}, p.inTransactionSQL}, p.notifies(), ms)
}

func (p *Publisher) notifies() bool { return p.cfg.Notify == NotifyPublish }

// publish checks everything first, then sends a statement per chunk.
func (p *Publisher) publish(ctx context.Context, s session, notify bool, ms []outbox.Message) ([]outbox.Receipt, error) {
	entries, err := prepare(ms, p.cfg.MaxPayload)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if err := s.prove(ctx); err != nil {
		return nil, p.explain("publish: prove the transaction", err)
	}
	statements, err := p.lockFirst(ctx, s, entries)
	if err != nil {
		return nil, p.explain("publish: lock the keys", err)
	}
	receipts := make([]outbox.Receipt, 0, len(entries))
	for len(entries) > 0 {
		n := chunkLen(entries)
		if receipts, err = p.send(ctx, s, statements, notify, entries[:n], receipts); err != nil {
			return nil, p.explain(describe(entries[:n]), err)
		}
		entries = entries[n:]
	}
	return receipts, nil
}

// send publishes one chunk by one statement and appends its receipts.
func (p *Publisher) send(ctx context.Context, s session, c *chunkStatements, notify bool, es []entry, receipts []outbox.Receipt) ([]outbox.Receipt, error) {
	if !allPlain(es) {
		return p.sendRows(ctx, s, c.rows, notify, es, receipts)
	}
	query, args := c.insert, insertArgs
	if len(es) == 1 && c == &p.plain {
		query, args = p.oneSQL, oneArgs
	}
	if err := s.exec(ctx, query, args(es, notify)...); err != nil {
		return nil, err
	}
	for i := range es {
		receipts = append(receipts, outbox.Receipt{ID: es[i].ID})
	}
	return receipts, nil
}

// sendRows sends messages of which some may be duplicates.
func (p *Publisher) sendRows(ctx context.Context, s session, query string, notify bool, es []entry, receipts []outbox.Receipt) ([]outbox.Receipt, error) {
	published, err := s.published(ctx, query, rowsArgs(es, notify)...)
	if err != nil {
		return nil, err
	}
	if len(published) != len(es) {
		return nil, fmt.Errorf("%d answers for %d messages", len(published), len(es))
	}
	for i, ok := range published {
		receipt := outbox.Receipt{Duplicate: true}
		if ok {
			receipt = outbox.Receipt{ID: es[i].ID}
		}
		receipts = append(receipts, receipt)
	}
	return receipts, nil
}

// describe says what was being published, for errors: never the payload.
func describe(es []entry) string {
	if len(es) == 1 {
		return fmt.Sprintf("publish message %s of topic %s", es[0].ID, es[0].Topic)
	}
	return fmt.Sprintf("publish %d messages from %s on", len(es), es[0].ID)
}

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
	// small transactions, and for databases behind a pooler through which relays can't listen. Transactions that are
	// prepared (two-phase commit) need it: PostgreSQL prepares none that has notified.
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
	// Hooks observe publishing: PublishStart and PublishEnd.
	Hooks outbox.Hooks
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

	oneSQL, copiedSQL, inTransactionSQL string
	locking, plain                      chunkStatements
	lockSQL                             string
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
		copiedSQL:        text(publishCopiedSQL),
		inTransactionSQL: text(inTransactionSQL),
	}, nil
}

// Publish publishes the messages in the pgx transaction, in the order given, and returns a receipt for each. Up to
// a thousand messages take one round trip, in every pgx.QueryExecMode. From 500 on they go by COPY, if none needs more
// than that: a dedup key, an id of the caller's, a time.
//
// A caller's id that is taken is outbox.ErrDuplicateID, a missing schema outbox.ErrSchemaMissing, a refused value a
// *outbox.FieldError. A DedupKey that is taken is a receipt that says so; publishing waits for the transaction that
// is about to take it, and under REPEATABLE READ and SERIALIZABLE may fail with SQLSTATE 40001 then.
func (p *Publisher) Publish(ctx context.Context, tx pgx.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	receipts, _, err := p.publish(ctx, pgxSessionOf(tx), p.notifies(), ms)
	return receipts, err
}

// PublishSQL is Publish for a transaction of database/sql, with any driver for PostgreSQL. A driver that does not
// watch the context while it waits for an answer, such as lib/pq, waits for a hanging server longer than ctx.
func (p *Publisher) PublishSQL(ctx context.Context, tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	receipts, _, err := p.publish(ctx, sqlSessionOf(tx), p.notifies(), ms)
	return receipts, err
}

// PublishQuerier is PublishSQL for what an ORM offers in place of a *sql.Tx. It proves first, by a statement more,
// that q is inside a transaction: a *sql.DB or *sql.Conn without one fails with outbox.ErrNoTransaction.
func (p *Publisher) PublishQuerier(ctx context.Context, q Querier, ms ...outbox.Message) ([]outbox.Receipt, error) {
	receipts, _, err := p.publish(ctx, p.provenSessionOf(q), p.notifies(), ms)
	return receipts, err
}

func (p *Publisher) notifies() bool { return p.cfg.Notify == NotifyPublish }

// publish publishes between the hooks. It returns the id of the transaction as well, empty if nothing was published.
func (p *Publisher) publish(ctx context.Context, s session, notify bool, ms []outbox.Message) ([]outbox.Receipt, string, error) {
	if !p.cfg.Hooks.ObservesPublish() {
		return p.publishAll(ctx, s, notify, ms)
	}
	return p.publishObserved(ctx, s, notify, ms)
}

func (p *Publisher) publishObserved(ctx context.Context, s session, notify bool, ms []outbox.Message) ([]outbox.Receipt, string, error) {
	var transaction string
	receipts, err := p.cfg.Hooks.ObservePublish(ctx, ms, func(ctx context.Context, ms []outbox.Message) (rs []outbox.Receipt, err error) {
		rs, transaction, err = p.publishAll(ctx, s, notify, ms)
		return rs, err
	})
	return receipts, transaction, err
}

// publishAll checks everything first, then sends a COPY or a statement per chunk.
func (p *Publisher) publishAll(ctx context.Context, s session, notify bool, ms []outbox.Message) ([]outbox.Receipt, string, error) {
	if s == nil {
		return nil, "", fmt.Errorf("publish: the transaction is nil: %w", outbox.ErrNoTransaction)
	}
	entries, err := prepare(ctx, ms, p.cfg.MaxPayload)
	if err != nil || len(entries) == 0 {
		return nil, "", err
	}
	if err := s.prove(ctx); err != nil {
		return nil, "", p.explain("publish: prove the transaction", err)
	}
	tx := copies(s, entries)
	statements, err := p.lockFirst(ctx, s, entries, tx != nil)
	if err != nil {
		return nil, "", p.explain("publish: lock the keys", err)
	}
	if tx != nil {
		return p.copy(ctx, tx, notify, entries)
	}
	sent := &sending{receipts: make([]outbox.Receipt, 0, len(entries))}
	for len(entries) > 0 {
		n := chunkLen(entries)
		if err := p.send(ctx, s, statements, notify, entries[:n], sent); err != nil {
			return nil, "", p.explain(describe(entries[:n]), err)
		}
		entries = entries[n:]
	}
	return sent.receipts, sent.transaction, nil
}

// sending is what the chunks of a call have brought so far.
type sending struct {
	receipts    []outbox.Receipt
	transaction string // empty: nothing was published
}

// send publishes one chunk by one statement.
func (p *Publisher) send(ctx context.Context, s session, c *chunkStatements, notify bool, es []entry, sent *sending) error {
	query, args, answers := c.rows, rowsArgs, len(es)
	switch {
	case !allPlain(es):
	case len(es) == 1 && c == &p.plain:
		query, args = p.oneSQL, oneArgs
	default:
		query, args, answers = c.insert, insertArgs, 1
	}
	published, err := s.published(ctx, query, args(es, notify)...)
	if err != nil {
		return err
	}
	if len(published) != answers {
		return fmt.Errorf("%d answers for %d messages", len(published), len(es))
	}
	for i := range es {
		sent.add(es[i].ID, published[i%answers])
	}
	return nil
}

// add notes a message, and that it is a duplicate if no transaction has published it.
func (s *sending) add(id outbox.ID, transaction string) {
	if transaction == "" {
		s.receipts = append(s.receipts, outbox.Receipt{Duplicate: true})
		return
	}
	s.receipts = append(s.receipts, outbox.Receipt{ID: id})
	s.transaction = transaction
}

// describe says what was being published, for errors: never the payload.
func describe(es []entry) string {
	if len(es) == 1 {
		return fmt.Sprintf("publish message %s of topic %s", es[0].ID, es[0].Topic)
	}
	return fmt.Sprintf("publish %d messages from %s on", len(es), es[0].ID)
}

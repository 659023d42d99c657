package orm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/examples/orm/sqlcdb"
	"github.com/outboxrelay/outbox/pgstore"
)

// placeFunc places an order by one of the examples.
type placeFunc func(ctx context.Context, publisher *pgstore.Publisher, customerID, total int64) error

// examples are all of them, each on the database that url names.
var examples = map[string]func(t *testing.T, url string) placeFunc{
	"pgx": func(t *testing.T, url string) placeFunc {
		pool := openPool(t, url)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithPgx(ctx, pool, p, Order{CustomerID: customerID, Total: total})
		}
	},
	"lib_pq":     withSQL("postgres"),
	"pgx_stdlib": withSQL("pgx"),
	"sqlx": func(t *testing.T, url string) placeFunc {
		db := sqlx.NewDb(openSQL(t, "pgx", url), "pgx")
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithSqlx(ctx, db, p, Order{CustomerID: customerID, Total: total})
		}
	},
	"sqlc": func(t *testing.T, url string) placeFunc {
		db := openSQL(t, "pgx", url)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithSqlc(ctx, db, p, sqlcdb.InsertOrderParams{CustomerID: customerID, Total: total})
		}
	},
	"GORM":             withGORM(false),
	"GORM_PrepareStmt": withGORM(true),
	"bun":              withBun(openBun),
	"bun_pgdriver":     withBun(openPgdriver),
	"ent": func(t *testing.T, url string) placeFunc {
		client := openEnt(t, url)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithEnt(ctx, client, p, customerID, total)
		}
	},
}

func withSQL(driver string) func(t *testing.T, url string) placeFunc {
	return func(t *testing.T, url string) placeFunc {
		db := openSQL(t, driver, url)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithSQL(ctx, db, p, Order{CustomerID: customerID, Total: total})
		}
	}
}

func withGORM(prepareStmt bool) func(t *testing.T, url string) placeFunc {
	return func(t *testing.T, url string) placeFunc {
		db := openGORM(t, url, prepareStmt)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithGORM(ctx, db, p, Order{CustomerID: customerID, Total: total})
		}
	}
}

func withBun(open func(*testing.T, string) *bun.DB) func(t *testing.T, url string) placeFunc {
	return func(t *testing.T, url string) placeFunc {
		db := open(t, url)
		return func(ctx context.Context, p *pgstore.Publisher, customerID, total int64) error {
			return PlaceOrderWithBun(ctx, db, p, Order{CustomerID: customerID, Total: total})
		}
	}
}

// eachExample runs a test with every example, each on a database of its own.
func eachExample(t *testing.T, test func(t *testing.T, place placeFunc, pool *pgxpool.Pool)) {
	for name, open := range examples {
		t.Run(name, func(t *testing.T) {
			url := postgres.DatabaseFrom(t, "application", prepare)
			test(t, open(t, url), openPool(t, url))
		})
	}
}

// stored describes all orders and messages.
func stored(t *testing.T, pool *pgxpool.Pool) (all string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `select coalesce(string_agg(line, '; ' order by line), '') from (
		select format('order %s of customer %s', id, customer_id) as line from orders
		union all select format('message %s %s %s', topic, key, convert_from(payload, 'UTF8')) from outbox.message) l`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCommitted: row and message are both there. The second order meets what the first has prepared.
func TestCommitted(t *testing.T) {
	eachExample(t, func(t *testing.T, place placeFunc, pool *pgxpool.Pool) {
		p := newPublisher(t)
		for _, total := range []int64{10, 20} {
			if err := place(t.Context(), p, 1, total); err != nil {
				t.Fatal(err)
			}
		}
		const want = `message orders.placed 1 {"order":1,"total":10}; message orders.placed 1 {"order":2,"total":20}; ` +
			`order 1 of customer 1; order 2 of customer 1`
		if got := stored(t, pool); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// TestCommitFails: row and message were written, and the database refuses the commit.
func TestCommitFails(t *testing.T) {
	eachExample(t, func(t *testing.T, place placeFunc, pool *pgxpool.Pool) {
		err := place(t.Context(), newPublisher(t), 404, 10)
		if err == nil || !strings.Contains(err.Error(), "orders_customer_id_fkey") {
			t.Errorf("%v, want the unknown customer", err)
		}
		if got := stored(t, pool); got != "" {
			t.Errorf("there is %s", got)
		}
	})
}

// TestPublishFails: the row goes with a message that is refused before it is sent.
func TestPublishFails(t *testing.T) {
	eachExample(t, func(t *testing.T, place placeFunc, pool *pgxpool.Pool) {
		p, err := pgstore.NewPublisher(&pgstore.PublishConfig{MaxPayload: 1})
		if err != nil {
			t.Fatal(err)
		}
		var refused *outbox.FieldError
		if err := place(t.Context(), p, 1, 10); !errors.As(err, &refused) || refused.Field != "Payload" {
			t.Errorf("%v, want the payload refused", err)
		}
		if got := stored(t, pool); got != "" {
			t.Errorf("there is %s", got)
		}
	})
}

// TestDatabaseFails: the row goes with a message that the database refuses after writing it.
func TestDatabaseFails(t *testing.T) {
	eachExample(t, func(t *testing.T, place placeFunc, pool *pgxpool.Pool) {
		_, err := pool.Exec(t.Context(), `create function refuse() returns trigger language plpgsql as
			$$ begin raise 'written and refused'; end $$;
			create trigger refuse after insert on outbox.message for each statement execute function refuse()`)
		if err != nil {
			t.Fatal(err)
		}
		if err := place(t.Context(), newPublisher(t), 1, 10); err == nil || !strings.Contains(err.Error(), "written and refused") {
			t.Errorf("%v, want that of the trigger", err)
		}
		if got := stored(t, pool); got != "" {
			t.Errorf("there is %s", got)
		}
	})
}

// TestPoolRefused: what is given in place of a transaction, by mistake, is refused, and nothing is written.
func TestPoolRefused(t *testing.T) {
	url := postgres.DatabaseFrom(t, "application", prepare)
	db := openSQL(t, "pgx", url)
	pools := map[string]pgstore.Querier{
		"lib/pq":           openSQL(t, "postgres", url),
		"pgx/stdlib":       db,
		"sqlx":             sqlx.NewDb(db, "pgx"),
		"sqlc":             sqlcdb.DBTX(db),
		"GORM":             openGORM(t, url, false).Statement.ConnPool,
		"GORM PrepareStmt": openGORM(t, url, true).Statement.ConnPool,
		"bun":              openBun(t, url),
		"bun pgdriver":     openPgdriver(t, url),
		"ent":              openEnt(t, url),
	}
	p, pool := newPublisher(t), openPool(t, url)
	for name, q := range pools {
		for range 2 {
			if _, err := p.PublishQuerier(t.Context(), q, orderPlaced(1, 1, 10)); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("%s, a %T: %v", name, q, err)
			}
		}
	}
	if got := stored(t, pool); got != "" {
		t.Errorf("there is %s", got)
	}
}

// TestBunTx: a bun.Tx in place of the *sql.Tx inside it is an error and publishes nothing.
func TestBunTx(t *testing.T) {
	url := postgres.DatabaseFrom(t, "application", prepare)
	db := openBun(t, url)
	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := newPublisher(t).PublishQuerier(ctx, tx, orderPlaced(1, 1, 10))
		return err
	})
	if err == nil || errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("%v, want an error about the arguments", err)
	}
	if got := stored(t, openPool(t, url)); got != "" {
		t.Errorf("there is %s", got)
	}
}

// TestPgdriver: bun's own driver puts arguments into the text of the statement. Every statement of publishing works so.
func TestPgdriver(t *testing.T) {
	db := openPgdriver(t, postgres.DatabaseFrom(t, "application", prepare))
	p := newPublisher(t)
	texts := `it's "$1", \ and ?`
	plain := outbox.Message{Topic: "t", Key: texts, Payload: []byte{0, '\'', '\\', 255}, Headers: map[string]string{"h": texts}}
	deduplicated := outbox.Message{Topic: "t", DedupKey: texts}
	own := outbox.Message{Topic: "t", ID: outbox.NewID()}
	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, one := p.PublishSQL(ctx, tx.Tx, plain)
		_, several := p.PublishSQL(ctx, tx.Tx, plain, plain)
		receipts, special := p.PublishSQL(ctx, tx.Tx, deduplicated, own, plain, deduplicated)
		if special == nil && !receipts[3].Duplicate {
			t.Errorf("%+v, want the last a duplicate", receipts)
		}
		return errors.Join(one, several, special)
	})
	if err != nil {
		t.Fatal(err)
	}
	var same int
	err = db.QueryRow("select count(*) from outbox.message where key = ? and payload = ? and headers = ?::jsonb",
		plain.Key, plain.Payload, plain.Headers).Scan(&same)
	if err != nil || same != 4 {
		t.Errorf("%d of 4 messages as they were published, %v", same, err)
	}
	err = db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := p.PublishSQL(ctx, tx.Tx, own)
		return err
	})
	if !errors.Is(err, outbox.ErrDuplicateID) {
		t.Errorf("%v, want a duplicate id", err)
	}
}

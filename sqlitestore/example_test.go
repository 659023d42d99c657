package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // or another driver for SQLite

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/sqlitestore"
)

// An order and its message in one transaction, and a relay in the same program.
func Example() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := sell(context.Background(), filepath.Join(dir, "shop.db")); err != nil {
		fmt.Println(err)
	}
	// Output: orders.created: {"id":"o-17"}
}

func sell(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlitestore.New(db, nil)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "create table orders (id text primary key)"); err != nil {
		return err
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "insert into orders (id) values ('o-17')"); err != nil {
			return err
		}
		_, err := store.Publish(ctx, tx, outbox.Message{Topic: "orders.created", Key: "o-17", Payload: []byte(`{"id":"o-17"}`)})
		return err
	})
	if err != nil {
		return err
	}
	return deliver(ctx, store)
}

func deliver(ctx context.Context, store *sqlitestore.Store) error {
	mux := outbox.NewMux()
	mux.Handle("orders.>", func(_ context.Context, d *outbox.Delivery) error {
		fmt.Printf("%s: %s\n", d.Topic, d.Payload)
		return nil
	})
	relay, err := outbox.NewRelay(store, outbox.To(mux), nil)
	if err != nil {
		return err
	}
	_, err = relay.RunUntilIdle(ctx) // or Run
	return err
}

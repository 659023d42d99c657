package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/pgstore"
)

// Create the tables by a step of the deployment. (A relay does it by itself unless Config.Migrate says otherwise;
// publishing never does.)
func ExampleMigrator() {
	ctx := context.Background()
	url, drop := shopURL(ctx)
	defer drop()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		log.Fatal(err)
	}
	migrator, err := pgstore.NewMigrator(cfg, "shop_outbox") // a schema of another name
	if err != nil {
		log.Fatal(err)
	}
	applied, err := migrator.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range applied {
		fmt.Println(m.Version, m.Name)
	}
	fmt.Println("validate:", migrator.Validate(ctx))
	// Output:
	// 1 core
	// validate: <nil>
}

// Command outbox runs a relay, and looks after the outbox in a PostgreSQL database.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

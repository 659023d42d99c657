package pgtest

import (
	"os"
	"testing"
)

var postgres Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

func TestDatabase(t *testing.T) { _ = postgres.Database(t) }

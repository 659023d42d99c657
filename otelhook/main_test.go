package otelhook_test

import (
	"os"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

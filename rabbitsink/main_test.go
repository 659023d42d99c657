package rabbitsink

import (
	"os"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

var rabbit rabbitdev.Shared

func TestMain(m *testing.M) { os.Exit(rabbit.Run(m)) }

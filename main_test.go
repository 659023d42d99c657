package outbox_test

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runtimeGoexit is what testing's FailNow does to a handler's goroutine.
func runtimeGoexit() { runtime.Goexit() }

package sinktest

import (
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verdict stands for a case's testing.T and keeps its failure to itself.
type verdict struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (v *verdict) recover() {
	if recover() != nil {
		v.Fail()
	}
}

func (v *verdict) Helper()             {}
func (v *verdict) Log(...any)          {}
func (v *verdict) Logf(string, ...any) {}

func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed
}

func (v *verdict) Fail() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = true
}

func (v *verdict) FailNow() {
	v.Fail()
	runtime.Goexit()
}

func (v *verdict) Error(...any)          { v.Fail() }
func (v *verdict) Errorf(string, ...any) { v.Fail() }
func (v *verdict) Fatal(...any)          { v.FailNow() }
func (v *verdict) Fatalf(string, ...any) { v.FailNow() }

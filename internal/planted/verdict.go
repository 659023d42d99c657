// Package planted runs checks on faults that were planted for them, where failing is what is wanted.
package planted

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Failures runs a check with a testing.TB that keeps its failures to itself, and returns what it said, one line
// for each; empty: it passed. Everything else, Cleanup and Context among it, is t's. A panic of the check is a
// failure.
func Failures(t testing.TB, check func(t testing.TB)) string {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() { // Fatal ends its goroutine
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				v.fail(fmt.Sprint(p))
			}
		}()
		check(v)
	}()
	<-done
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.said, "\n")
}

type verdict struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (v *verdict) fail(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, text)
}

func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.said) > 0
}

func (v *verdict) Helper()             {}
func (v *verdict) Log(...any)          {}
func (v *verdict) Logf(string, ...any) {}

func (v *verdict) Fail() { v.fail("failed") }

func (v *verdict) FailNow() {
	v.Fail()
	runtime.Goexit()
}

func (v *verdict) Error(args ...any)                 { v.fail(fmt.Sprint(args...)) }
func (v *verdict) Errorf(format string, args ...any) { v.fail(fmt.Sprintf(format, args...)) }

func (v *verdict) Fatal(args ...any) {
	v.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// A skipped check has not failed, and skips nothing else.

func (v *verdict) Skip(...any)          { runtime.Goexit() }
func (v *verdict) Skipf(string, ...any) { runtime.Goexit() }
func (v *verdict) SkipNow()             { runtime.Goexit() }

//go:build unix && failpoint

package crashtest

import (
	"testing"

	"github.com/outboxrelay/outbox/internal/failpoint"
)

func TestKillAtAFailpoint(t *testing.T) {
	h := New(t)
	p := h.Start("points", Options{Failpoint: "step:3"})
	p.Await(failpoint.Reached("step"))
	p.Kill()
	p.Await("passed 1")
	p.Await("passed 2")
	if left := p.lines.untaken(); len(left) != 0 {
		t.Fatalf("went on after the point: %q", left)
	}
}

func TestAMisspeltFailpointFailsTheTest(t *testing.T) {
	failures, _ := record(t, func(h *Harness) {
		p := h.Start("points", Options{Failpoint: "step:x"})
		p.Await(failpoint.Reached("step"))
	})
	if failures == "" {
		t.Fatal("nothing was reported")
	}
}

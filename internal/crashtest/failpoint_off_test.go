//go:build unix && !failpoint

package crashtest

import (
	"strings"
	"testing"
)

func TestAFailpointWithoutTheTagIsRefused(t *testing.T) {
	failures, _ := record(t, func(h *Harness) { h.Start("points", Options{Failpoint: "step"}) })
	if !strings.Contains(failures, `failpoint "step" needs the build tag failpoint`) {
		t.Fatalf("reported %q", failures)
	}
}

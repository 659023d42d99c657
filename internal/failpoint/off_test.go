//go:build !failpoint

package failpoint

import (
	"os/exec"
	"strings"
	"testing"
)

func TestHitDoesNothing(t *testing.T) {
	t.Setenv(PointsEnv, "here")
	Hit("here")
	if Enabled {
		t.Fatal("Enabled without the tag")
	}
}

// The compiler says what it inlines; an inlined empty function is no code at all.
func TestHitIsInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "can inline Hit") {
		t.Fatalf("the compiler does not inline Hit:\n%s", out)
	}
}

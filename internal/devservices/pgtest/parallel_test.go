package pgtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// envParallel makes TestMain let so many tests run at a time for each processor, and TestParallel tell how many do.
const envParallel = "OUTBOX_TEST_PGTEST_PARALLEL"

// TestLetRun: more tests than processors when the package says so, and as many as the command line says when it does.
func TestLetRun(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    string
		args []string
		want int
	}{
		{"0", nil, runtime.GOMAXPROCS(0)},
		{"3", nil, 3 * runtime.GOMAXPROCS(0)},
		{"3", []string{"-test.parallel=5"}, 5},
	} {
		cmd := exec.Command(exe, append([]string{"-test.run=^TestParallel$", "-test.v"}, c.args...)...)
		cmd.Env = append(os.Environ(), envParallel+"="+c.n)
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("%d at a time\n", c.want); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s for each processor, %q: %v, want %s: %s", c.n, c.args, err, want, out)
		}
	}
}

func TestParallel(t *testing.T) {
	if os.Getenv(envParallel) != "" {
		fmt.Printf("%v at a time\n", flag.Lookup(parallelFlag).Value)
	}
}

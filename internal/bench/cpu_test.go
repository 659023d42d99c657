package bench

import (
	"os"
	"testing"
	"time"
)

func TestBusy(t *testing.T) {
	stat := "cpu  10 20 30 4000 5000 1 2 3 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
	if got := busy(stat); got != 660*time.Millisecond {
		t.Errorf("busy = %v, want 660ms: all but idle, iowait and guests", got)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h"} {
		if got := busy(bad); got >= 0 {
			t.Errorf("busy(%q) = %v, want unknown", bad, got)
		}
	}
}

// TestProcessCPU: the time of a process that works grows, and agrees with what the system tells by another way.
func TestProcessCPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip(err)
	}
	begin := ownCPU()
	for ownCPU()-begin < 300*time.Millisecond {
		busy("cpu 1 2 3 4 5 6 7 8 9")
	}
	own, _, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if other := ownCPU(); own < begin || (own-other).Abs() > 200*time.Millisecond {
		t.Errorf("/proc says %v, getrusage %v", own, other)
	}
	parent, err := parentOf(os.Getpid())
	if err != nil || parent != os.Getppid() {
		t.Errorf("parent %d, %v, want %d", parent, err, os.Getppid())
	}
}

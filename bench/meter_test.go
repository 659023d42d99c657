package main

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

func TestUsageFigures(t *testing.T) {
	u := usage{took: time.Second, serverCPU: -1, others: -1, clientCPU: time.Second, wal: 5000, statements: 20, roundTrips: 10,
		calls: functionCalls{claims: 2, claimMillis: 5}}
	want := map[string]string{"PG CPU s/100k": "–", "client CPU s/100k": "100", "WAL B/msg": "5.00",
		"statements/1k": "20.0", "round trips/1k": "10.0", "others' CPU %": "–", "claims/1k": "2.00", "claim ms": "2.50", "settle ms": "–"}
	for _, f := range append(u.figures(1000), u.callFigures(1000)...) {
		if got := cell(number(f.number), true); got != want[f.name] {
			t.Errorf("%s = %s, want %s", f.name, got, want[f.name])
		}
	}
}

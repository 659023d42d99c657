package devservices

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envChild makes the test binary play the parent that gets killed.
const envChild = "OUTBOX_TEST_SUPERVISOR_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(superviseForever())
	}
	goleak.VerifyTestMain(m)
}

// superviseForever starts a service, says where and waits to be killed.
func superviseForever() int {
	account, err := ServiceAccount("nobody")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	sup, err := Supervise("test", account, `kill "$(cat pid)"`)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := sup.Run(context.Background(), "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! >pid"); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(sup.Dir)
	time.Sleep(time.Hour) // the end comes by a signal
	return 0
}

// alive reports whether the process exists and is not just waiting to be reaped.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

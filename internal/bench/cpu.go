package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// clockTick is the unit of CPU times in /proc; Linux has told programs 100 per second on every architecture that Go
// runs on.
const clockTick = 10 * time.Millisecond

// cpu is what all processes of the server have used, those that have ended included; negative if unknown.
func (s *Server) cpu() time.Duration {
	children, err := devservices.Children(s.postmaster)
	if err != nil {
		return -1
	}
	own, reaped, err := processCPU(s.postmaster)
	if err != nil {
		return -1
	}
	sum := own + reaped
	for _, pid := range children {
		used, _, err := processCPU(pid)
		if err == nil { // else it has just ended, and is among the reaped next time
			sum += used
		}
	}
	return sum
}

// processCPU reads what a process has used, and what its children had used that have ended.
func processCPU(pid int) (own, reaped time.Duration, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, 0, err
	}
	var ticks [4]int64 // utime stime cutime cstime
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * clockTick, time.Duration(ticks[2]+ticks[3]) * clockTick, nil
}

// statFields are those of /proc/<pid>/stat behind the name, which may hold anything.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	s := string(text)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// parentOf is 0 where there is no /proc.
func parentOf(pid int) (int, error) {
	fields, err := statFields(pid)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[1])
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineCPU is how long the machine's CPUs have been busy, together, for whomever; negative if unknown.
func machineCPU() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return -1
	}
	return busy(string(text))
}

// busy adds up the first line of /proc/stat: user nice system idle iowait irq softirq steal, then guests, whose time
// user includes.
func busy(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return -1
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return -1
		}
		sum += ticks
	}
	return time.Duration(sum) * clockTick
}

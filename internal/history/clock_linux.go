package history

import (
	"syscall"
	"unsafe"
)

const clockMonotonic = 1 // CLOCK_MONOTONIC of clock_gettime(2)

// Now is the time that events carry, in nanoseconds. On Linux it is CLOCK_MONOTONIC, which is one clock for
// all processes of the machine and is never set; package time keeps its reading of it to itself.
func Now() int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("clock_gettime: " + errno.Error()) // not possible: the clock exists and ts is ours
	}
	return ts.Nano()
}

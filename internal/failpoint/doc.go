// Package failpoint stops a process at a named point of its code, so that a test can kill it exactly there.
//
// Without the build tag failpoint, Hit is an empty function that the compiler removes. With it, a point does
// what the environment says:
//
//	OUTBOX_TEST_FAILPOINT     points, separated by commas: name[:n][=duration]
//	OUTBOX_TEST_FAILPOINT_FD  the number of the open file that is told "reached name" when a point is reached
//
// The point acts when it is hit for the n-th time, the first by default, and at no other time. It writes its
// line and then blocks the goroutine until the process is killed, or for the duration if one is given.
package failpoint

// The variables that configure points in a process built with the tag.
const (
	PointsEnv = "OUTBOX_TEST_FAILPOINT"
	FDEnv     = "OUTBOX_TEST_FAILPOINT_FD"
)

// Reached is the line, without its end, that a point writes.
func Reached(name string) string { return "reached " + name }

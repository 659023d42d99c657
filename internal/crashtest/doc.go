//go:build unix

// Package crashtest runs publishers and relays as processes of their own, kills or suspends them where a test
// says, and keeps the history of it all.
//
// The processes are the test binary itself in another role. Its TestMain asks Main first:
//
//	func TestMain(m *testing.M) {
//		os.Exit(crashtest.Main(m, map[string]crashtest.Role{"relay": runRelay, "publisher": runPublisher}))
//	}
//
// and a test starts them, waits for what they announce, and ends them:
//
//	h := crashtest.New(t)
//	relay := h.Start("relay", crashtest.Options{Failpoint: "settle.before:3"})
//	relay.Await(failpoint.Reached("settle.before"))
//	relay.Kill()
//	h.Check(history.Options{})
//
// A process has its name, its history log and a way to announce lines; what it needs besides travels in its
// environment. It ends when the test does, at the latest when the test's process is gone; one that is
// suspended at that time only if the test ended in order.
package crashtest

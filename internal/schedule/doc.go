// Package schedule proves the guarantees by random schedules: publishers, relays that are killed, handlers that fail in
// every way and operators act on one outbox, and the history checker judges what came of it.
//
// A Plan is drawn before anything runs, so that package rapid can repeat it and make it smaller. Play plays it with
// relays of package outbox on any Store: under package synctest a store in memory takes milliseconds for it, a database
// the time that leases take.
//
// A failed test prints the seed: -rapid.seed=N repeats its plans, -rapid.checks=N plays more of them. What the plan
// does not fix is how goroutines, and the server's backends, interleave.
package schedule

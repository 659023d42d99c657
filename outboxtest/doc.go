// Package outboxtest helps to test programs that use an outbox.
//
// [NewStore] is an outbox in memory with the whole behaviour of a real one: transactions that commit or roll
// back, claims, leases, order per key, retries, dead letters. It passes the conformance suite of package
// storetest. Its clock can be replaced, it starts no goroutines, and it works inside a testing/synctest bubble.
//
// [Recorder] is a sink that remembers what it was given and answers as told. [Deliver] hands one message to a
// sink or mux, without a relay.
package outboxtest

// Package outboxtest helps to test programs that use an outbox.
//
// Test a handler with [Deliver]: it hands one message to a sink or mux as a relay would, and returns the handler's
// error; what the error means for the message is asked with outbox.IsPermanent and its like.
//
// Test code that publishes in a transaction of PostgreSQL with [RequirePublished] (pgx) or [RequirePublishedSQL]
// (database/sql), before the commit or in place of it.
//
// Test both together, without a database, with [NewStore]: an outbox in memory with the whole behaviour of a real
// one: transactions that commit or roll back, claims, leases, order per key, retries, dead letters. It passes the
// conformance suite of package storetest. Relay.RunUntilIdle delivers all that was published and returns. The
// store's clock can be replaced, it starts no goroutines, and it works inside a testing/synctest bubble.
//
// [Recorder] is a sink that remembers what it was given and answers as told.
package outboxtest

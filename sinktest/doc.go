// Package sinktest is the definition of an [outbox.Sink] and an [outbox.BatchSink], as tests.
//
// Run calls every case on a sink and a destination that a [Harness] shows: what is acknowledged is stored, bytes and
// headers arrive as they were, a message's id stays the same, one message's failure is not its batch's, a destination
// that is away is told from a message that is wrong, and every message gets exactly one result in time.
package sinktest

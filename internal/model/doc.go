// Package model is the protocol as a state machine that is small enough to be explored whole: publishers whose
// transactions draw their seqs and commit apart, two relays with their leases and lanes, the ledger of claims, the
// operators, and a database that forgets its last asynchronous commits. Explore visits every order in which a few messages can
// go through it, breadth first, and stops at the shortest way to a state that breaks a guarantee of docs/guarantees.md.
//
// The steps follow the SQL functions: one call of outbox.claim, outbox.settle, outbox.beat or outbox.below_mark is one step,
// since each of them is alone by the claim lock or by the rows it locks. Rules names what a guarantee rests on; without one of
// them Explore must find a fault, or it would prove nothing.
//
// What is not modelled: several topics and destinations, suspects, sizes, expiry, the stream of the WAL engine.
package model

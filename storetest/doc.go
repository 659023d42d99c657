// Package storetest is the definition of an outbox.Store: a suite of cases, each named after the behaviour it
// demands and the guarantee that it defends. An implementation passes [Run] or is wrong; new behaviour is
// added here first.
//
// The suite does not know how a store finds its candidates. Where it expects something to be claimable it
// claims repeatedly until a deadline, where it expects nothing it claims several times. It never sleeps to let
// time pass: the [Harness] moves the outbox's clock.
//
// That every case can fail is proved in package outboxtest, which shows the suite stores with one rule wrong.
package storetest

// Package history writes down what publishers, relays and a test harness did, each process in a file of its
// own, and checks afterwards that together they kept the guarantees.
//
// A history is a directory. Every process appends to one file there, an event a line, each with one write, so
// that SIGKILL at any instant costs at most the end of the last line of that file. The events of all files
// are put in order by their times, which are those of one clock of the machine (see Now).
//
// What is logged is chosen so that a correct system can never look wrong, whenever its processes die. Every
// event is on the safe side of what it tells:
//
//   - Publishing is logged before COMMIT is sent, Committed and RolledBack after the answer. A message with
//     neither has an unknown outcome: both are allowed.
//   - Begun is logged when the handler or sink begins, Accepted and Failed before it returns, so that the
//     interval between them lies within the one in which the relay has the message in flight.
//   - Settling is logged before a settlement is sent that ends a message otherwise than delivered; it may have
//     taken effect even if no answer was ever logged. Settled and Fenced are logged after the answer; Since is
//     the time before the request.
//   - Claimed, Discarded and Redriven are logged after the answer as well, Since again before the request.
//   - Leased is logged after the answer to a heartbeat; Until is the time before the request plus the lease.
//   - Killed is logged by the harness before it sends the signal, Suspended too; Died after the process is gone.
//
// Check says what each violation means. A relay that logs Leased is held to the times it wrote: what happens
// between them must be as if no other relay existed. Without Leased, a relay counts as holding its lease until
// it is killed, dies, is suspended or stops, and one that logs LeaseLost is excused from its beginning on,
// because nobody knows when it lost it. That is enough where leases end by kills only. Tests in which a lease
// can lapse under a running relay log Leased; those that disturb the database log Claimed as well, because a
// claim that was forgotten is no claim even while the lease holds.
//
// Package record writes all of it for a relay by wrapping its store and sinks.
package history

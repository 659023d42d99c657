// Package bench has the instruments of the benchmarks: a private PostgreSQL server, backlogs, relays, destinations, a
// meter for what they cost, a tally that finds lost, repeated and disordered messages, and tables of medians. What is
// measured with them is in bench and bench/peers, and in the command outbox bench.
package bench

// Package e2e proves the guarantees with real processes: publishers and relays run as processes of their own
// against a real PostgreSQL, are killed, suspended or cut off, and the history checker judges what they did.
package e2e

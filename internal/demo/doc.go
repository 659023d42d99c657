// Package demo shows what an outbox is for, with real services and a real crash: an application commits orders, each
// with its message in the same transaction; a relay, which is a process of its own, is killed while it holds messages;
// another one goes on; and the stream is compared with what was committed.
//
// It believes nobody: what was committed and what was rolled back is remembered by the application's side, what was in
// flight is read from the database after the killed process is gone, and what was delivered is read from the stream.
package demo

// Package natssink delivers messages to a NATS JetStream stream.
//
// A message is delivered when the stream has acknowledged it. Many are on their way at a time; each carries its id as
// Nats-Msg-Id, so that within the stream's duplicate window a message that is sent again, because its acknowledgement
// was lost, is stored once.
//
// # Whose fault a failure is
//
//	not connected, no stream, no answer to a whole batch, stream full or sealed   the destination's: Unavailable
//	too large, a subject or header that NATS cannot carry                         the message's: Permanent
//	no answer to this message, though the stream answers                          the message's: a failed attempt
//
// # Headers
//
// The message's own headers and content-type travel as they are. Outbox-Id, Outbox-Topic, Outbox-Key, Outbox-Seq,
// Outbox-Published-At (RFC 3339, UTC) and, after a redrive, Outbox-Generation are added. Attempts are not told, so that
// copies are equal.
package natssink

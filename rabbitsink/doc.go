// Package rabbitsink delivers messages to a RabbitMQ exchange.
//
// A message is delivered when RabbitMQ has confirmed it and has not returned it: it is persistent, and a queue has it.
// Many are on their way at a time. Each carries its id as message_id; RabbitMQ does not deduplicate, so a message that
// is sent again because its confirmation was lost arrives twice, with the same id.
//
// # Whose fault a failure is
//
//	not connected, login or exchange refused or missing, memory alarm, no confirmation of a whole batch   the destination's: Unavailable
//	too large, a routing key or header that AMQP cannot carry                                             the message's: Permanent
//	returned, because no queue is bound to the exchange for its routing key                               the message's: a failed attempt
//	no confirmation of this message, though RabbitMQ answers                                              the message's: a failed attempt
//	refused (basic.nack), for example by a queue that is full and rejects: of all messages of a batch     the destination's: Unavailable
//	refused, while others of the batch were confirmed                                                     the message's: a failed attempt
//
// A channel that RabbitMQ closes, because the exchange was deleted or the user may not write, takes what was
// unconfirmed with it: all of that is Unavailable, and connection, channel and confirm mode are made anew together.
//
// # Properties and headers
//
// message_id is the message's id, whatever attempt or generation; timestamp is the time of publishing, content_type the
// header of that name; delivery_mode is persistent; expiration is the message's BrokerTTL or its route's, or what
// is left of its life if that is shorter, and counts from the delivery. The message's other headers travel as they are.
// Outbox-Id, Outbox-Topic, Outbox-Key, Outbox-Seq, Outbox-Published-At (RFC 3339, UTC) and, after a redrive,
// Outbox-Generation are added. Attempts are not told, so that copies are equal.
package rabbitsink

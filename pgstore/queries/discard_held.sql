select c.operation_id, c.matched, c.changed, c.held, c.more from outbox.discard_held($1, $2) c

select c.operation_id, c.matched, c.changed, c.held, 0::bigint, c.more from outbox.discard_held($1, $2) c

select outbox.has_ended($1)

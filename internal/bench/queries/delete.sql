delete from outbox.message where seq = any ($1)

select * from outbox.fetch($1, $2, $3, $4)

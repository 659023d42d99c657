insert into outbox.message (id, topic, key, payload, headers) values ($1, $2, nullif($3, ''), $4, $5)

select coalesce(o.rate, 0) from outbox.operation o where o.id = $1 and o.verb = $2

select coalesce((select o.rate from outbox.operation o where o.id = $1), 0)

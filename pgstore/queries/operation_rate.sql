select coalesce(o.rate, 0) from outbox.operations(only_id => $1) o where o.verb = $2

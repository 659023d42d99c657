select name, messages from outbox.drop_partition(coalesce($1, clock_timestamp()) - $2::interval)

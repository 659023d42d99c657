select outbox.add_partition(coalesce($1, clock_timestamp()), $2)

select outbox.expire_archive(coalesce($1, clock_timestamp()) - $2::interval, $3)

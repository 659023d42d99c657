select pg_notify('outbox', $1)

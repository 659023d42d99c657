-- Tells others at once whether relays stream; their heartbeats repeat it.
update outbox.relay set streaming = $2, stream = $3 where id = any ($1)

-- Claims that were made before the relay's last heartbeat, or all of a stopping one, and that it does not know of.
update outbox_claim
set relay = null
where relay = ?1 and beat < ?2 and token not in (select value from json_each(?3))

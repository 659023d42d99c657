update outbox_relay
set lease_until = ?2 + lease, beat = ?3, lanes = ?4, counters = ?5, seen_at = ?2
where id = ?1

select id, lanes from outbox_relay where lease_until > ?1

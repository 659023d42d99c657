-- Relays whose lease lies further ahead than twice its length: the clock was stepped back since they have extended it.
select r.id, r.beat, r.lease from outbox_relay r where r.id <> ?1 and r.lease_until > ?2 + 2 * r.lease

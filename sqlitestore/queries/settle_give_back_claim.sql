-- A claim without a relay, for a part of another.
insert into outbox_claim (token, relay, beat, destination, lapses, claimed_at)
select c.token, null, c.beat, c.destination, c.lapses, ?2 from outbox_claim c where c.id = ?1
returning id

insert into outbox_claim (token, relay, beat, destination, lapses, claimed_at)
values (?1, ?2, (select r.beat from outbox_relay r where r.id = ?2), ?3, ?4, ?5)
returning id

delete from outbox_relay where id = ?1 and not exists (select 1 from outbox_claim c where c.relay = ?1)

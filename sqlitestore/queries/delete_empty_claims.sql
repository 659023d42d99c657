delete from outbox_claim
where id in (select value from json_each(?1)) and not exists (select 1 from outbox_listed l where l.claim = outbox_claim.id)

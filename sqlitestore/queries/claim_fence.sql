-- Who listed these messages is fenced, for all that the claim lists: its lapse is counted, and it is nobody's.
update outbox_claim
set lapses = lapses + (relay is not null), relay = null
where id in (select l.claim from outbox_listed l where l.seq in (select value from json_each(?1)))

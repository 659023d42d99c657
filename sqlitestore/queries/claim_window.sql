-- A window of ready messages.
select m.seq, m.topic, coalesce(m.key, ''), length(m.payload), 0, coalesce((select l.claim from outbox_listed l where l.seq = m.seq), 0), 0
from outbox_message m
where m.seq > ?1 and m.seq <= ?2
order by m.seq
limit ?3

-- What claims without a live relay list, as far as it is due.
select l.seq, x.topic, coalesce(x.key, ''), x.size, max(c.lapses + (c.relay is not null), x.lapses), c.id
from outbox_claim c
join outbox_listed l on l.claim = c.id
join (
    select m.seq, m.topic, m.key, length(m.payload) as size, 0 as lapses, 0 as available_at from outbox_message m
    union all
    select w.seq, w.topic, w.key, length(w.payload), w.lapses, w.available_at from outbox_waiting w
) x on x.seq = l.seq
where (c.relay is null or c.relay not in (select r.id from outbox_relay r)) and x.available_at <= ?1
order by l.seq

-- What claims without a live relay list, as far as it is due. The joins are in this order: from the few claims.
select l.seq, m.topic, coalesce(m.key, ''), length(m.payload), c.lapses + (c.relay is not null), c.id
from outbox_claim c
cross join outbox_listed l on l.claim = c.id
cross join outbox_message m on m.seq = l.seq
where c.relay is null or c.relay not in (select r.id from outbox_relay r)
union all
select l.seq, w.topic, coalesce(w.key, ''), length(w.payload), max(c.lapses + (c.relay is not null), w.lapses), c.id
from outbox_claim c
cross join outbox_listed l on l.claim = c.id
cross join outbox_waiting w on w.seq = l.seq
where (c.relay is null or c.relay not in (select r.id from outbox_relay r)) and w.available_at <= ?1
  and coalesce(w.destination, ?2) = ?2
order by 1

-- Due messages that a relay has crashed with, and that no claim lists.
select w.seq, w.topic, coalesce(w.key, ''), length(w.payload), w.lapses, 0
from outbox_waiting w
where w.lapses > 0 and w.available_at <= ?1 and coalesce(w.destination, ?2) = ?2 and w.seq not in (select l.seq from outbox_listed l where l.seq = w.seq)
order by w.available_at, w.seq
limit 1000

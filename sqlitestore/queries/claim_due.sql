-- A window of due messages: those that wait, from a place on in the order of their times. Those of other destinations are
-- among them, so that a lane walks past them once.
select w.seq, w.topic, coalesce(w.key, ''), length(w.payload), w.lapses, coalesce((select l.claim from outbox_listed l where l.seq = w.seq), 0),
       w.available_at, coalesce(w.destination, '')
from outbox_waiting w
where (w.available_at, w.seq) > (?1, ?2) and w.available_at <= ?3
order by w.available_at, w.seq
limit ?4

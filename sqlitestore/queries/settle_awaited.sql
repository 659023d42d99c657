-- What operators wait for among what was just settled, and has not ended by that; who waits, and why.
select a.seq, o.actor, o.reason
from outbox_awaited a
join outbox_operation o on o.id = a.operation
where a.seq in (select value from json_each(?1)) and a.until > ?2
  and (exists (select 1 from outbox_message m where m.seq = a.seq) or exists (select 1 from outbox_waiting w where w.seq = a.seq)
       or exists (select 1 from outbox_dead d where d.seq = a.seq))

-- What an operation waits for: whether it is still there, and in a live relay's hands.
select a.seq,
       exists (select 1 from outbox_message m where m.seq = a.seq) or exists (select 1 from outbox_waiting w where w.seq = a.seq)
       or exists (select 1 from outbox_dead d where d.seq = a.seq),
       exists (select 1 from outbox_held h where h.seq = a.seq and h.live)
from outbox_awaited a
where a.operation = ?1

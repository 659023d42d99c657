-- Archived messages, each in its last generation: whether it was kept without payload, and whether it is under way or dead.
select n.seq, n.generation, (select a.payload is null from outbox_archive a where a.seq = n.seq and a.generation = n.generation),
       exists (select 1 from outbox_message m where m.seq = n.seq) or exists (select 1 from outbox_waiting w where w.seq = n.seq)
       or exists (select 1 from outbox_dead d where d.seq = n.seq)
from (select a.seq, max(a.generation) as generation
      from outbox_archive a where a.seq in (select value from json_each(?1)) group by a.seq) n
order by n.seq

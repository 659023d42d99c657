-- A restored copy or a hand-made setval leaves the sequence behind the messages.
select q.seqcache, case when s.is_called then s.last_value else s.last_value - 1 end,
       greatest((select max(m.seq) from outbox.message m), (select max(w.seq) from outbox.waiting w),
                (select max(d.seq) from outbox.dead d), 0)
from outbox.seq s, pg_sequence q
where q.seqrelid = 'outbox.seq'::regclass

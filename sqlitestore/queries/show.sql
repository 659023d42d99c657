-- Where a message is, by its id, and once for each time that it has ended and was kept.
select s.place, s.seq, s.generation
from outbox_stored s
where s.id = ?1
order by s.place = 'archive', s.generation, s.seq
limit 1000

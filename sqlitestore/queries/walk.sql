-- What is stored in a place from one message on, as filters look at it.
select s.seq, s.generation, s.topic, coalesce(s.key, ''), s.state, s.holds, s.attempts, coalesce(s.error_class, ''), coalesce(s.last_error, ''),
       coalesce(s.available_at, 0), coalesce(s.ended_at, s.published_at),
       coalesce(s.destination, '')
from outbox_stored s
where s.place = ?1 and s.seq >= ?2 and (s.seq, s.generation) > (?2, ?3) and s.seq <= ?4
order by s.seq, s.generation
limit ?5

-- All that is stored of one message: $1 its seq among the undelivered and dead, null: it is not there; $2 its id.
select s.seq, s.id, s.topic, coalesce(s.key, ''), s.state,
       s.place in ('message', 'waiting') and s.seq in (select unnest(c.seqs) from outbox.claim c where c.relay is not null),
       s.holds and s.place <> 'message', s.attempts, s.generation, coalesce(s.destination, ''), s.published_at, s.available_at,
       s.ended_at, s.expires_at, coalesce(s.error_class, ''), coalesce(s.last_error, ''), coalesce(s.actor, ''), s.payload is null,
       s.headers::text, s.payload
from (
    select * from outbox.stored s where s.place <> 'archive' and s.seq = $1
    union all
    (select * from outbox.stored s where s.place = 'archive' and s.id = $2 order by s.generation limit 1000)
) s
order by s.place = 'archive', s.generation

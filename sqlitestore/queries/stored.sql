-- One message as it is stored; headers and payload when they are asked for.
select s.seq, s.id, s.topic, coalesce(s.key, ''), s.state,
       s.place in ('message', 'waiting')
       and exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim where l.seq = s.seq and c.relay is not null),
       s.holds and s.place <> 'message', s.attempts, s.generation, coalesce(s.destination, ''), s.published_at, s.available_at, s.ended_at,
       s.expires_at, coalesce(s.error_class, ''), coalesce(s.last_error, ''), coalesce(s.actor, ''), s.payload is null,
       case when ?4 then s.headers end, case when ?4 then s.payload end
from outbox_stored s
where s.place = ?1 and s.seq = ?2 and s.generation = ?3

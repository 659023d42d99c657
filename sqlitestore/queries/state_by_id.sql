-- Where one message is and who lists it.
select m.state, m.seq, m.id, m.topic, coalesce(m.key, ''), m.holds, m.attempts,
       max(m.lapses, coalesce((select h.lapses from outbox_held h where h.seq = m.seq), 0)),
       m.generation, coalesce(m.error_class, ''), coalesce(m.last_error, ''), m.published_at, coalesce(m.available_at, 0), m.held_since, coalesce(m.destination, ''),
       (select json_object('destination', h.destination, 'claimed_at', h.claimed_at, 'live', h.live, 'host', h.host, 'pid', h.pid)
        from outbox_held h where h.seq = m.seq)
from outbox_stored m
where m.id = ?1 and m.place <> 'archive'
limit 1

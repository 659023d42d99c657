-- Where one message is and who lists it.
select m.state, m.seq, m.id, m.topic, coalesce(m.key, ''), m.holds, m.attempts,
       max(m.lapses, coalesce((select h.lapses from outbox_held h where h.seq = m.seq), 0)),
       m.generation, m.error_class, m.last_error, m.published_at, coalesce(m.due_at, 0), m.at,
       (select json_object('destination', h.destination, 'claimed_at', h.claimed_at, 'live', h.live, 'host', h.host, 'pid', h.pid)
        from outbox_held h where h.seq = m.seq)
from outbox_messages m
where m.id = ?1
limit 1

-- The first message that holds a key before a seq, among these topics, and of those that are bound among these destinations, null for
-- all: where it is and who lists it.
select m.state, m.seq, m.id, m.topic, coalesce(m.key, ''), m.holds, m.attempts,
       max(m.lapses, coalesce((select h.lapses from outbox_held h where h.seq = m.seq), 0)),
       m.generation, coalesce(m.error_class, ''), coalesce(m.last_error, ''), m.published_at, coalesce(m.available_at, 0), m.held_since, coalesce(m.destination, ''),
       (select json_object('destination', h.destination, 'claimed_at', h.claimed_at, 'live', h.live, 'host', h.host, 'pid', h.pid)
        from outbox_held h where h.seq = m.seq)
from outbox_stored m
where m.place <> 'archive' and m.seq = (
    select min(first.seq)
    from (
        select * from (select r.seq from outbox_message r
                       where r.key = ?1 and r.seq < ?2 and r.topic in (select value from json_each(?3)) order by r.seq limit 1)
        union all
        select * from (select w.seq from outbox_waiting w
                       where w.key = ?1 and w.seq < ?2 and w.holds and w.topic in (select value from json_each(?3))
                         and (w.destination is null or ?4 is null or w.destination in (select value from json_each(?4)))
                       order by w.seq limit 1)
        union all
        select * from (select d.seq from outbox_dead d
                       where d.key = ?1 and d.seq < ?2 and d.holds and d.topic in (select value from json_each(?3))
                         and (d.destination is null or ?4 is null or d.destination in (select value from json_each(?4)))
                       order by d.seq limit 1)
    ) first)

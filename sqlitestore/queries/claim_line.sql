-- The line of a key in a destination, the oldest first: what holds the key or is due, among the topics that have an
-- order there, without what live relays hold. The key rule is made of this: a claim takes from the front of the line as
-- long as it may, and nothing when a live relay holds the key.
select m.seq, m.topic, m.key, m.size, max(m.lapses, coalesce((select h.lapses from outbox_held h where h.seq = m.seq), 0)),
       coalesce((select l.claim from outbox_listed l where l.seq = m.seq), 0),
       coalesce(m.due_at <= ?4, 0),
       exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim join outbox_relay r on r.id = c.relay
               where l.key = ?1 and c.destination = ?3)
from outbox_messages m
where m.key = ?1
  and (m.holds or m.due_at <= ?4)
  and m.topic in (select value from json_each(?2))
  and not exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim join outbox_relay r on r.id = c.relay where l.seq = m.seq)
order by m.seq
limit ?5

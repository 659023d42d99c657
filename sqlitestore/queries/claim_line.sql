-- The line of a key in a destination, the oldest first: what holds the key or is due, among the topics that have an
-- order there, without what live relays hold and what is replayed to another destination; and whether a live relay holds
-- the key. The key rule is made of this: a claim takes from the front of the line as long as it may, and nothing when the
-- key is held. Each part is read in the order of an index, and no further than is needed.
with ordered as (select value as topic from json_each(?2))
select seq, topic, ?1, size, lapses, claim, due,
       exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim join outbox_relay r on r.id = c.relay
               where l.key = ?1 and c.destination = ?3)
from (
    select * from (
        select m.seq, m.topic, length(m.payload) as size, coalesce(c.lapses + (c.relay is not null), 0) as lapses,
               coalesce(c.id, 0) as claim, 1 as due
        from outbox_message m
        left join outbox_listed l on l.seq = m.seq
        left join outbox_claim c on c.id = l.claim
        left join outbox_relay r on r.id = c.relay
        where m.key = ?1 and m.topic in (select topic from ordered) and r.id is null
        order by m.seq limit ?5)
    union all
    select * from (
        select w.seq, w.topic, length(w.payload), max(w.lapses, coalesce(c.lapses + (c.relay is not null), 0)),
               coalesce(c.id, 0), w.available_at <= ?4
        from outbox_waiting w
        left join outbox_listed l on l.seq = w.seq
        left join outbox_claim c on c.id = l.claim
        left join outbox_relay r on r.id = c.relay
        where w.key = ?1 and w.topic in (select topic from ordered) and r.id is null and (w.holds or w.available_at <= ?4)
          and coalesce(w.destination, ?3) = ?3
        order by w.seq limit ?5)
    union all
    select * from (
        select d.seq, d.topic, length(d.payload), d.lapses, 0, 0
        from outbox_dead d
        where d.key = ?1 and d.topic in (select topic from ordered) and d.holds and coalesce(d.destination, ?3) = ?3
        order by d.seq limit ?5)
)
order by seq
limit ?5

-- Messages that a replay has bound to a destination where no live relay would take them, by destination and topic: $1 of each are
-- counted. A few probes of an index for each pair of a destination and a topic that there is, whatever waits besides.
with recursive lanes as materialized (
    select l.key as destination, l.value ->> 'take' as take
    from outbox.relay r cross join lateral jsonb_each(r.destinations) l
    where r.lease_until > clock_timestamp()
), bound (destination, topic) as (
    (select w.destination, w.topic
     from outbox.waiting w
     where w.destination is not null and exists (select from lanes)
     order by w.destination, w.topic limit 1)
    union all
    select n.destination, n.topic
    from bound b
    cross join lateral (
        select w.destination, w.topic
        from outbox.waiting w
        where w.destination is not null and (w.destination, w.topic) > (b.destination, b.topic)
        order by w.destination, w.topic limit 1
    ) n
)
select b.destination, b.topic, exists (select from lanes l where l.destination = b.destination),
       (select count(*) from (
           select from outbox.waiting w where w.destination = b.destination and w.topic = b.topic limit $1::bigint + 1) n)
from (select p.destination, p.topic from bound p limit 1000) b
where not exists (select from lanes l where l.destination = b.destination and b.topic ~ l.take)
limit 100

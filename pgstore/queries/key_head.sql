-- The first message of a key before a seq that holds it, among the topics that share a destination with the given one and have
-- an order (null: any topic that some live relay delivers in order), or with the destination $4 that the message is bound to; $5: of
-- any topic, whoever delivers it. And how many ready messages of the key there are before and behind. The probes are those of the
-- claim; "between", because with an equality the planner may walk the primary key in search of the first one.
with lanes as materialized (
    select l.key as destination, l.value ->> 'take' as take, l.value ->> 'free' as free
    from outbox.relay r cross join lateral jsonb_each(r.destinations) l
    where r.lease_until > clock_timestamp()
), dest as materialized (
    select case when $5 or bool_or(l.take = '') or not exists (select from lanes) then '' else string_agg(distinct l.take, '|') end as take,
           case when not $5 then max(l.free) end as free, $5 or not exists (select from lanes) as unknown,
           coalesce(array_agg(l.destination), '{}') as names
    from lanes l
    where $3::text is null or l.destination in (
        select o.destination from lanes o
        where $3 ~ o.take and (o.free is null or $3 !~ o.free) and ($4::text is null or o.destination = $4))
)
select least((select m.seq from outbox.message m
              where m.key between $1 and $1 and m.seq < $2 and m.topic ~ d.take and (d.free is null or m.topic !~ d.free)
              order by m.key, m.seq limit 1),
             (select w.seq from outbox.waiting w
              where w.key between $1 and $1 and w.holds and w.seq < $2 and w.topic ~ d.take and (d.free is null or w.topic !~ d.free)
                and (w.destination is null or d.unknown or w.destination = any (d.names))
              order by w.key, w.seq limit 1),
             (select x.seq from outbox.dead x
              where x.key between $1 and $1 and x.holds and x.seq < $2 and x.topic ~ d.take and (d.free is null or x.topic !~ d.free)
                and (x.destination is null or d.unknown or x.destination = any (d.names))
              order by x.key, x.seq limit 1)),
       (select count(*) from (select from outbox.message m where m.key between $1 and $1 and m.seq < $2 order by m.key, m.seq limit 10001) m),
       (select count(*) from (select from outbox.message m where m.key between $1 and $1 and m.seq > $2 order by m.key, m.seq limit 10001) m)
from dest d

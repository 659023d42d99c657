-- Where one message is, who holds it, how many relays have died with it, and which destinations live relays deliver its
-- topic to: of one that is bound, no other. It holds its key if some live relay delivers it in order, or none lives.
with lanes as materialized (
    select l.key as destination, l.value ->> 'take' as take, l.value ->> 'free' as free
    from outbox.relay a cross join lateral jsonb_each(a.destinations) l
    where a.lease_until > clock_timestamp()
)
select m.id, m.seq, m.topic, coalesce(m.key, ''), m.state, m.attempts,
       greatest(m.lapses, c.lapses + (c.relay is not null and coalesce(r.lease_until <= clock_timestamp(), true))::int), m.generation, coalesce(m.error_class, ''),
       coalesce(m.last_error, ''), m.published_at,
       coalesce((extract(epoch from m.available_at - clock_timestamp()) * 1000000)::bigint, 0),
       coalesce((extract(epoch from clock_timestamp() - m.died_at) * 1000000)::bigint, 0),
       m.holds and (not exists (select from lanes) or exists (
           select from lanes l where m.topic ~ l.take and (l.free is null or m.topic !~ l.free)
           and (m.destination is null or m.destination = l.destination))),
       c.destination, (extract(epoch from clock_timestamp() - c.claimed_at) * 1000000)::bigint,
       r.lease_until > clock_timestamp(), r.host, r.pid, coalesce(m.destination, ''),
       array(select distinct l.destination from lanes l
             where m.topic ~ l.take and (m.destination is null or m.destination = l.destination) order by 1)
from (
    select m.id, m.seq, m.topic, m.key, 'ready' as state, 0 as attempts, 0 as lapses, 0 as generation, null::text as error_class,
           null::text as last_error, m.published_at, null::timestamptz as available_at, null::timestamptz as died_at,
           m.key is not null as holds, null::text as destination
    from outbox.message m where m.seq = $1
    union all
    select w.id, w.seq, w.topic, w.key, 'waiting', w.attempts, w.lapses, w.generation, w.error_class, w.last_error, w.published_at,
           w.available_at, null, w.holds, w.destination
    from outbox.waiting w where w.seq = $1
    union all
    select d.id, d.seq, d.topic, d.key, 'dead', d.attempts, d.lapses, d.generation, d.error_class, d.last_error, d.published_at,
           null, d.died_at, d.holds, d.destination
    from outbox.dead d where d.seq = $1
) m
left join lateral (
    select c.destination, c.claimed_at, c.relay, c.lapses from outbox.claim c where c.seqs @> array[m.seq] order by c.id limit 1
) c on true
left join lateral (
    select r.lease_until, r.host, r.pid from outbox.relay r where r.id = c.relay limit 1
) r on true
limit 1

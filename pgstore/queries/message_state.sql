-- Where one message is, who holds it, and which destinations live relays deliver its topic to.
select m.id, m.seq, m.topic, coalesce(m.key, ''), m.state, m.attempts, m.generation, coalesce(m.error_class, ''),
       coalesce(m.last_error, ''), m.published_at,
       coalesce((extract(epoch from m.available_at - clock_timestamp()) * 1000000)::bigint, 0),
       coalesce((extract(epoch from clock_timestamp() - m.died_at) * 1000000)::bigint, 0),
       m.holds, c.destination, (extract(epoch from clock_timestamp() - c.claimed_at) * 1000000)::bigint,
       r.lease_until > clock_timestamp(), r.host, r.pid,
       array(select distinct l.key
             from outbox.relay a cross join lateral jsonb_each(a.destinations) l
             where a.lease_until > clock_timestamp() and m.topic ~ (l.value ->> 'take')
             order by 1)
from (
    select m.id, m.seq, m.topic, m.key, 'ready' as state, 0 as attempts, 0 as generation, null::text as error_class,
           null::text as last_error, m.published_at, null::timestamptz as available_at, null::timestamptz as died_at,
           m.key is not null as holds
    from outbox.message m where m.seq = $1
    union all
    select w.id, w.seq, w.topic, w.key, 'waiting', w.attempts, w.generation, w.error_class, w.last_error, w.published_at,
           w.available_at, null, w.holds
    from outbox.waiting w where w.seq = $1
    union all
    select d.id, d.seq, d.topic, d.key, 'dead', d.attempts, d.generation, d.error_class, d.last_error, d.published_at,
           null, d.died_at, d.holds
    from outbox.dead d where d.seq = $1
) m
left join lateral (
    select c.destination, c.claimed_at, c.relay from outbox.claim c where c.seqs @> array[m.seq] order by c.id limit 1
) c on true
left join lateral (
    select r.lease_until, r.host, r.pid from outbox.relay r where r.id = c.relay limit 1
) r on true
limit 1

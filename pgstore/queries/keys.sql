-- What holds keys: messages that failed or are dead and hold them, messages in a relay's hands for longer than five
-- seconds or in nobody's, and the first messages of paused topics among the oldest 10,000. Each source is read up to a
-- bound and gives the keys that it holds longest; per key the oldest message counts that is delivered in order: others of
-- the key hold nothing, nor do those that are bound to a destination which no live relay has.
with lanes as materialized (
    select l.key as destination, l.value ->> 'take' as take, l.value ->> 'free' as free
    from outbox.relay r cross join lateral jsonb_each(r.destinations) l
    where r.lease_until > clock_timestamp()
), paused as materialized (
    select c.take
    from (select outbox.topics_regexp(jsonb_build_array(jsonb_build_object('in', true, 'pattern', p.name))) as take
          from outbox.control p where p.scope = 'topic'
          union
          select l.take from outbox.control p join lanes l on l.destination = p.name where p.scope = 'destination') c
    limit 1000
), held as materialized (
    select h.*
    from (select c.relay, c.destination, c.claimed_at, c.lapses, u.seq
          from outbox.claim c cross join lateral unnest(c.seqs, c.keys) u(seq, hash)
          where u.hash is not null
          limit 100000) h
), waits as materialized (
    select w.key, w.seq, w.topic, coalesce(w.first_failed_at, w.failed_at, w.published_at) as since
    from outbox.waiting w
    where w.key is not null and w.holds and (w.destination is null or not exists (select from lanes) or w.destination in (select l.destination from lanes l))
    order by w.key, w.seq limit 100000
), parked as materialized (
    select d.key, d.seq, d.topic, d.died_at as since from outbox.dead d
    where d.holds and (d.destination is null or not exists (select from lanes) or d.destination in (select l.destination from lanes l))
    order by d.key, d.seq limit 100000
), front as materialized (
    select m.key, m.seq, m.topic from outbox.message m where exists (select from paused) order by m.seq limit 10000
), ordered as materialized (
    select t.topic
    from (select w.topic from waits w union select d.topic from parked d union select m.topic from front m) t
    where not exists (select from lanes)
       or exists (select from lanes l where t.topic ~ l.take and (l.free is null or t.topic !~ l.free))
), source as materialized (
    (select w.key, w.seq
     from (select distinct on (w.key) w.key, w.seq, w.since from waits w
           where w.topic in (select o.topic from ordered o)
           order by w.key, w.seq) w
     order by w.since limit 1001)
    union all
    (select d.key, d.seq
     from (select distinct on (d.key) d.key, d.seq, d.since from parked d
           where d.key is not null and d.topic in (select o.topic from ordered o)
           order by d.key, d.seq) d
     order by d.since limit 1001)
    union all
    (select m.key, h.seq
     from (select * from held h
           where h.relay is null or h.claimed_at < clock_timestamp() - interval '5 seconds'
              or h.relay not in (select r.id from outbox.relay r where r.lease_until > clock_timestamp())
           order by h.claimed_at limit 1000) h
     cross join lateral (
         select m.key from outbox.message m where m.seq = h.seq
         union all
         select w.key from outbox.waiting w where w.seq = h.seq
         limit 1
     ) m)
    union all
    (select m.key, min(m.seq) from front m
     where m.key is not null and m.topic in (select o.topic from ordered o)
       and exists (select from paused p where m.topic ~ p.take)
     group by m.key
     order by min(m.seq) limit 1001)
), first as materialized (
    -- The sources are cut: what is older in another table is looked for.
    select s.key, least(s.seq,
               (select w.seq from outbox.waiting w
                where w.key = s.key and w.holds and w.topic in (select o.topic from ordered o)
                  and (w.destination is null or not exists (select from lanes) or w.destination in (select l.destination from lanes l))
                order by w.seq limit 1),
               (select d.seq from outbox.dead d
                where d.key = s.key and d.holds and d.topic in (select o.topic from ordered o)
                  and (d.destination is null or not exists (select from lanes) or d.destination in (select l.destination from lanes l))
                order by d.seq limit 1)) as seq
    from (select s.key, min(s.seq) as seq from source s group by s.key) s
), found as materialized (
    select f.key, x.*,
           coalesce(h.claimed_at, x.since) as at,
           case when x.dead then 'parked'
                when h.relay is not null and r.id is not null then 'in flight'
                when exists (select from paused p where x.topic ~ p.take) then 'paused'
                when h.seq is not null then 'lost'
                when x.available_at > clock_timestamp() then 'retrying'
                else 'due' end as state,
           greatest(x.suspicion, h.lapses + (h.relay is not null and r.id is null)::int) as lapses,
           h.destination, r.host, r.pid
    from first f
    cross join lateral (
        select m.seq, m.id, m.topic, 0 as attempts, '' as class, '' as text, null::timestamptz as available_at,
               m.published_at as since, 0 as suspicion, false as dead, null::text as bound
        from outbox.message m where m.seq = f.seq
        union all
        select w.seq, w.id, w.topic, w.attempts, coalesce(w.error_class, ''), coalesce(w.last_error, ''), w.available_at,
               coalesce(w.first_failed_at, w.failed_at, w.published_at), w.lapses, false, w.destination
        from outbox.waiting w where w.seq = f.seq
        union all
        select d.seq, d.id, d.topic, d.attempts, coalesce(d.error_class, ''), coalesce(d.last_error, ''), null,
               d.died_at, d.lapses, true, d.destination
        from outbox.dead d where d.seq = f.seq
        limit 1
    ) x
    left join lateral (select h.* from held h where h.seq = f.seq order by h.claimed_at limit 1) h on true
    left join lateral (
        select r.id, r.host, r.pid from outbox.relay r where r.id = h.relay and r.lease_until > clock_timestamp() limit 1
    ) r on true
    -- A topic that is delivered without order, or by nobody, holds nothing.
    where not exists (select from lanes)
       or exists (select from lanes l
                  where x.topic ~ l.take and (l.free is null or x.topic !~ l.free) and (x.bound is null or x.bound = l.destination))
    order by coalesce(h.claimed_at, x.since)
    limit $1
)
select f.key, f.state, f.topic, f.id, f.seq, f.attempts, f.lapses, f.class, f.text,
       coalesce((extract(epoch from f.available_at - clock_timestamp()) * 1000000)::bigint, 0),
       greatest((extract(epoch from clock_timestamp() - f.at) * 1000000)::bigint, 0),
       coalesce(f.destination, ''), coalesce(f.host, ''), coalesce(f.pid, 0),
       (select count(*) from (select from outbox.message m where m.key between f.key and f.key and m.seq > f.seq order by m.key, m.seq limit $2 + 1) m)
from found f
order by f.at, f.seq

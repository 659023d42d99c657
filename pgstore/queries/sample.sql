-- How the outbox is doing, often and at a bounded cost: no part of it reads more than $1 rows of a table, those that relays
-- hold apart. Scalar subqueries with a limit, because joins might be planned as scans.
with held as materialized (
    select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq) where c.relay is not null
), front as materialized (
    -- The oldest ready messages, and those of them that a relay holds.
    select m.seq, m.key, m.published_at, h.seq is not null as held
    from (select m.seq, m.key, m.published_at from outbox.message m order by m.seq
          limit $1::bigint + 1 + (select count(*) from held)) m
    left join held h on h.seq = m.seq
), due as materialized (
    select w.seq, w.key, w.available_at
    -- A time that is taken once can end the scan of the index; compared with clock_timestamp() itself every row is.
    from (select w.seq, w.key, w.available_at from outbox.waiting w where w.available_at <= (select clock_timestamp())
          order by w.available_at limit $1::bigint + (select count(*) from held)) w
    left join held h on h.seq = w.seq
    where h.seq is null
), eligible as (
    select (select f.published_at from front f
            where not f.held and (f.key is null or
                  (select true from outbox.waiting w where w.key = f.key and w.holds and w.seq < f.seq
                   and (w.attempts > 0 or w.generation > 0) limit 1) is null and
                  (select true from outbox.dead d where d.key = f.key and d.holds and d.seq < f.seq limit 1) is null)
            order by f.seq limit 1) as ready,
           (select d.available_at from due d
            where d.key is null or
                  (select true from outbox.waiting w where w.key = d.key and w.holds and w.seq < d.seq
                   and (w.attempts > 0 or w.generation > 0) limit 1) is null and
                  (select true from outbox.dead x where x.key = d.key and x.holds and x.seq < d.seq limit 1) is null
            order by d.available_at limit 1) as due
), behind as (
    -- When everything in front is blocked: the next one, eligible or not.
    select (select m.published_at from outbox.message m where m.seq > f.last order by m.seq limit 1) as published_at
    from (select max(f.seq) as last from front f) f
), counts as (
    select count(*) filter (where not f.held) as ready, count(*) filter (where f.held) as held from front f
), waiting as (
    -- What never failed and is due is ready: it was scheduled, redriven, replayed or given back.
    select count(*) as n, count(*) filter (where h.seq is null and w.attempts > 0) as retrying,
           count(*) filter (where h.seq is null and w.attempts = 0 and w.available_at <= (select clock_timestamp())) as due,
           count(*) filter (where h.seq is not null) as held
    from (select w.seq, w.attempts, w.available_at from outbox.waiting w limit $1::bigint + 1) w
    left join held h on h.seq = w.seq
), dead as (
    select count(*) as n from (select from outbox.dead limit $1::bigint + 1) d
)
select c.ready, (select count(*) from held), w.n, w.due, w.retrying, w.n - w.due - w.retrying - w.held, d.n,
       pg_stat_get_live_tuples('outbox.message'::regclass) - c.held,
       pg_stat_get_live_tuples('outbox.waiting'::regclass), pg_stat_get_live_tuples('outbox.dead'::regclass),
       -- Not below zero: the clock may have been put back.
       greatest((extract(epoch from clock_timestamp() - least(
           coalesce(e.ready, case when c.ready > $1::bigint then b.published_at end), e.due)) * 1000000)::bigint, 0)
from counts c, waiting w, dead d, eligible e, behind b

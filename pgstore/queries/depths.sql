-- How many messages there are by state. Bounded: nothing counts beyond 100,000 rows, and what relays hold is looked
-- up one by one in the primary keys; laterals with a limit, because a join might be planned as a scan.
with held as materialized (
    select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq) where c.relay is not null
), found as materialized (
    select (select true from outbox.message m where m.seq = h.seq limit 1) as ready,
           (select w.attempts > 0 from outbox.waiting w where w.seq = h.seq limit 1) as failed
    from held h
), held_counts as (
    select count(*) filter (where ready) as ready, count(*) filter (where failed) as retrying,
           count(*) filter (where not failed) as due
    from found
), ready as (
    select count(*) as n from (select from outbox.message limit 100001) m
), waiting as (
    -- What never failed and is due is ready: it was scheduled, redriven, replayed or given back.
    select count(*) as n, count(*) filter (where w.attempts > 0) as retrying,
           count(*) filter (where w.attempts = 0 and w.available_at <= t.now) as due
    from (select w.attempts, w.available_at from outbox.waiting w limit 100001) w, (select clock_timestamp() as now) t
), dead as (
    select count(*) as n, count(*) filter (where d.died_at > clock_timestamp() - interval '1 hour') as last_hour
    from (select died_at from outbox.dead limit 100001) d
)
select r.n, greatest(r.n - h.ready, 0), h.ready + h.retrying + h.due,
       w.n, greatest(w.due - h.due, 0), greatest(w.retrying - h.retrying, 0), w.n - w.retrying - w.due,
       d.n, d.last_hour,
       -- The running count of the statistics, for more.
       pg_stat_get_live_tuples('outbox.message'::regclass) - h.ready,
       coalesce((extract(epoch from clock_timestamp() - greatest(
           pg_stat_get_last_vacuum_time('outbox.message'::regclass), pg_stat_get_last_autovacuum_time('outbox.message'::regclass),
           pg_stat_get_last_analyze_time('outbox.message'::regclass), pg_stat_get_last_autoanalyze_time('outbox.message'::regclass)
       )) * 1000000)::bigint, 0)
from ready r, waiting w, dead d, held_counts h

-- How many keys a message holds that failed or is dead, and for how long the longest one; from the indexes of what holds
-- keys, up to 100,000 of each.
with held as materialized (
    select w.key, coalesce(w.first_failed_at, w.failed_at, w.available_at) as since
    from (select w.key, w.first_failed_at, w.failed_at, w.available_at from outbox.waiting w
          where w.key is not null and w.holds and (w.attempts > 0 or w.generation > 0) limit 100001) w
    union all
    select d.key, d.died_at
    from (select d.key, d.died_at from outbox.dead d where d.holds and d.key is not null limit 100001) d
)
select count(distinct h.key), count(*),
       coalesce((extract(epoch from clock_timestamp() - min(h.since)) * 1000000)::bigint, 0)
from held h

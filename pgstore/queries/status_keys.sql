-- How many keys a message holds that failed or is dead, and for how long the longest one; from the indexes of what holds
-- keys, up to 100,000 of each. A topic that is delivered without order, or by nobody, holds nothing, nor does what is bound
-- to a destination which no live relay has. The time is not below zero: the clock may have been put back.
with lanes as materialized (
    select l.key as destination, l.value ->> 'take' as take, l.value ->> 'free' as free
    from outbox.relay r cross join lateral jsonb_each(r.destinations) l
    where r.lease_until > clock_timestamp()
), held as materialized (
    select w.key, w.topic, coalesce(w.first_failed_at, w.failed_at, w.available_at) as since
    from (select w.key, w.topic, w.first_failed_at, w.failed_at, w.available_at from outbox.waiting w
          where w.key is not null and w.holds and (w.attempts > 0 or w.generation > 0)
            and (w.destination is null or not exists (select from lanes) or w.destination in (select l.destination from lanes l))
          limit 100001) w
    union all
    select d.key, d.topic, d.died_at
    from (select d.key, d.topic, d.died_at from outbox.dead d
          where d.holds and d.key is not null and (d.destination is null or not exists (select from lanes) or d.destination in (select l.destination from lanes l))
          limit 100001) d
), ordered as materialized (
    select t.topic
    from (select distinct h.topic from held h) t
    where not exists (select from lanes)
       or exists (select from lanes l where t.topic ~ l.take and (l.free is null or t.topic !~ l.free))
)
select count(distinct h.key), (select count(*) from held),
       greatest((extract(epoch from clock_timestamp() - min(h.since)) * 1000000)::bigint, 0)
from held h
where h.topic in (select o.topic from ordered o)

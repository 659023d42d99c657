-- Keys that a message holds which failed or is dead, and since when, up to a bound.
select key, topic, destination, min(at)
from (
    select * from (select w.key, w.topic, coalesce(w.destination, '') as destination, coalesce(w.first_failed_at, w.failed_at, w.available_at) as at from outbox_waiting w
                   where w.key is not null and w.holds and (w.attempts > 0 or w.generation > 0) limit 100001)
    union all
    select * from (select d.key, d.topic, coalesce(d.destination, ''), d.died_at from outbox_dead d where d.key is not null and d.holds limit 100001)
)
group by key, topic, destination

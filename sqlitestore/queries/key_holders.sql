-- Keys that may be held: by what failed or is dead, by what relays have for longer than five seconds or nobody has any
-- more. Each source is read up to a bound.
select key, min(at) as at
from (
    select * from (select w.key, coalesce(w.first_failed_at, w.failed_at, w.published_at) as at from outbox_waiting w
                   where w.key is not null and w.holds order by w.key, w.seq limit 10000)
    union all
    select * from (select d.key, d.died_at from outbox_dead d where d.key is not null and d.holds order by d.key, d.seq limit 10000)
    union all
    select * from (select h.key, h.claimed_at from outbox_held h
                   where h.key is not null and (not h.live or h.claimed_at <= ?1 - 5000) limit 10000)
)
group by key
order by 2
limit 2000

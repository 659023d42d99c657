-- Where the outbox is, the database's time, and for how long the oldest message could have been delivered. The list
-- of held messages is an array, so that the primary key's order decides the plan and the first row ends it. The time is
-- taken once, so that it ends the scan of what waits. The age is not below zero: the clock may have been put back.
with held as materialized (
    select coalesce(array_agg(u.seq), '{}') as seqs
    from outbox.claim c cross join lateral unnest(c.seqs) u(seq) where c.relay is not null
)
select current_database()::text, (select max(m.version) from outbox.migration m), clock_timestamp(),
       greatest((extract(epoch from clock_timestamp() - least(
           (select m.published_at from outbox.message m where m.seq <> all (h.seqs) order by m.seq limit 1),
           (select w.available_at from outbox.waiting w
            where w.available_at <= (select clock_timestamp()) and w.seq <> all (h.seqs) order by w.available_at limit 1)
       )) * 1000000)::bigint, 0)
from held h

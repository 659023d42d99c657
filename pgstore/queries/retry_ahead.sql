-- What was made to wait by a time that has not come yet: the clock was put back since. A retry waits for its backoff from now on, what
-- was redriven or replayed is due, as it was. Scheduled messages keep their time. What somebody works on has its turn next time.
with clock as materialized (
    select clock_timestamp() as now
), ahead as (
    select w.seq
    from outbox.waiting w, clock c
    where w.attempts > 0 and w.failed_at > c.now + interval '1 second'
       or w.attempts = 0 and w.generation > 0 and w.available_at > c.now + interval '1 second'
    for update of w skip locked
), moved as (
    update outbox.waiting w
    set available_at = case when w.attempts = 0 then c.now else least(w.available_at, c.now + (w.available_at - w.failed_at)) end,
        failed_at = least(w.failed_at, c.now), first_failed_at = least(w.first_failed_at, c.now)
    from ahead a, clock c
    where w.seq = a.seq
    returning 1
)
select count(*)::int from moved

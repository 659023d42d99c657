-- What was made to wait at a time that has not come yet: the clock was put back since. A retry waits for its backoff from now on,
-- what was redriven or replayed is due, as it was. Scheduled messages keep their time.
update outbox_waiting
set available_at = case when attempts = 0 then ?1 else min(available_at, ?1 + (available_at - failed_at)) end,
    failed_at = min(failed_at, ?1), first_failed_at = min(first_failed_at, ?1)
where attempts > 0 and failed_at > ?1 + 1000 or attempts = 0 and generation > 0 and available_at > ?1 + 1000

-- How many messages there are by state; nothing counts beyond a hundred thousand. What never failed and is due is ready: it was
-- scheduled, redriven, replayed or given back.
select (select count(*) from (select 1 from outbox_message limit 100001)),
       (select count(*) from (select 1 from outbox_waiting limit 100001)),
       (select count(*) from (select 1 from (select attempts from outbox_waiting limit 100001) where attempts > 0)),
       (select count(*) from (select 1 from (select attempts, available_at from outbox_waiting limit 100001) where attempts = 0 and available_at <= ?1)),
       (select count(*) from (select 1 from outbox_dead limit 100001)),
       (select count(*) from (select 1 from outbox_dead d where d.died_at > ?1 - 3600000 limit 100001))

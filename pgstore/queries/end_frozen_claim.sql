-- A client that froze in the middle of sending a claim holds the claim lock in ClientRead, where no time-out of
-- the server applies. A time to come is one from before the clock was put back.
select count(pg_terminate_backend(a.pid))
from pg_locks l
join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.classid = 28514 and l.objid = 'outbox.message'::regclass::oid and l.objsubid = 2
  and l.database = (select oid from pg_database where datname = current_database()) and l.granted
  and a.wait_event = 'ClientRead'
  and a.state_change not between clock_timestamp() - interval '2 seconds' and clock_timestamp() + interval '2 seconds'

-- Sessions that wait for a lock, are about to look for a deadlock and may find one that a migration is part of. Each looks once, when it has waited
-- for deadlock_timeout, of $1 milliseconds; the migration waits for $2. A tenth of a second is for the way there.
select coalesce(array_agg(distinct l.pid), '{}')
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where not l.granted and a.datname = current_database()
  and clock_timestamp() - l.waitstart between ($1::int - $2::int - 100) * interval '1 millisecond' and ($1::int + 100) * interval '1 millisecond'

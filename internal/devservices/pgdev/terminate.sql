-- Ends client connections and those of replication, except our own, waits up to five seconds for each to be gone, and
-- counts them.
select (count(*) filter (where pg_terminate_backend(pid, 5000)))::int
from pg_stat_activity
where backend_type in ('client backend', 'walsender')
	and pid <> pg_backend_pid()
	and ($1::text = '' or datname = $1);

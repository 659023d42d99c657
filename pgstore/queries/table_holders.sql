-- Who has locks on these tables and their partitions, the oldest transaction first. Who may not see everybody's sessions sees no more of
-- others than their process ids.
with held as (
    select l.pid, l.virtualtransaction, t.relname, l.mode
    from pg_catalog.pg_locks l
    join pg_catalog.pg_class c on c.oid = l.relation
    left join pg_catalog.pg_inherits h on h.inhrelid = c.oid
    join pg_catalog.pg_class t on t.oid = coalesce(h.inhparent, c.oid)
    where l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
      and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
      and t.relnamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = 'outbox')
      and t.relname = any ($1::text[])
), holders as (
    select h.pid, h.virtualtransaction, array_agg(distinct h.relname::text) as tables,
           bool_and(h.mode = 'ShareUpdateExclusiveLock') as vacuums
    from held h
    group by h.pid, h.virtualtransaction
)
select case when h.pid is null then 'prepared transaction' else 'session' end, coalesce(h.pid::text, p.gid, ''),
       coalesce((extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared)) * 1000000)::bigint, 0),
       case when h.pid is null then format('owner "%s"', p.owner)
           else concat_ws(', ', 'user "' || a.usename || '"', 'app "' || nullif(a.application_name, '') || '"', case a.backend_type when 'client backend' then a.state else a.backend_type end) end,
       h.tables, h.vacuums
from holders h
left join pg_catalog.pg_stat_activity a on a.pid = h.pid
left join pg_catalog.pg_locks x on h.pid is null and x.pid is null and x.virtualtransaction = h.virtualtransaction
    and x.locktype = 'transactionid'
left join pg_catalog.pg_prepared_xacts p on p.transaction = x.transactionid
order by 3 desc, 2

-- What vacuum has waited for during longer than it should in this database, the oldest first.
select t.kind, t.name, (extract(epoch from t.age) * 1000000)::bigint, t.text
from (
    select 'session' as kind, a.pid::text as name, clock_timestamp() - a.xact_start as age,
           format('app "%s", %s', a.application_name, a.state) as text
    from pg_stat_activity a
    where a.xact_start < clock_timestamp() - $1::text::interval and a.pid <> pg_backend_pid()
      and coalesce(a.backend_xmin, a.backend_xid) is not null and a.datname = current_database()
    union all
    select 'prepared transaction', p.gid, clock_timestamp() - p.prepared, format('owner "%s"', p.owner)
    from pg_prepared_xacts p
    where p.prepared < clock_timestamp() - $1::text::interval and p.database = current_database()
) t
order by t.age desc
limit 1

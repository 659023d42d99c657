-- How many connections there may be and are, without this one. Limits of the role and of the database do not hold for superusers. Who may
-- not see everybody's sessions sees no backend_type of the others: those that have a role and a database count.
with me as (
    select r.oid, r.rolname, r.rolsuper, r.rolconnlimit from pg_roles r where r.rolname = session_user
), used as (
    select a.usesysid, a.datid
    from pg_stat_activity a
    where coalesce(a.backend_type, 'client backend') = 'client backend' and a.usesysid is not null and a.datid is not null
      and a.pid <> pg_backend_pid()
)
select current_setting('max_connections')::int,
       case when not me.rolsuper then current_setting('superuser_reserved_connections')::int
           -- Since PostgreSQL 16, and a role that may use them.
           + case when exists (select from pg_roles p where p.rolname = 'pg_use_reserved_connections'
                               and pg_has_role(me.oid, p.oid, 'usage'))
                  then 0 else coalesce(current_setting('reserved_connections', true)::int, 0) end
       else 0 end,
       (select count(*) from used)::int,
       me.rolname::text, case when me.rolsuper then -1 else me.rolconnlimit end, (select count(*) from used u where u.usesysid = me.oid)::int,
       d.datname::text, case when me.rolsuper then -1 else d.datconnlimit end, (select count(*) from used u where u.datid = d.oid)::int,
       (select count(*) from outbox.relay r where r.lease_until > clock_timestamp())::int
from me, pg_database d
where d.datname = current_database()

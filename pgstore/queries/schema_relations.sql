-- The relations of a schema that are neither indexes nor TOAST tables nor partitions nor owned by a column.
select c.relname::text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1::text and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f') and not c.relispartition
    and not exists (select from pg_catalog.pg_depend d
        where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype = 'i')
order by 1

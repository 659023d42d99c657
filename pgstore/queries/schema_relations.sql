-- The relations of a schema but for indexes, TOAST tables, partitions, and sequences that belong to a column.
select c.relname::text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1::text and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f') and not c.relispartition
    and not (c.relkind = 'S' and exists (select from pg_catalog.pg_depend d
        where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
order by 1

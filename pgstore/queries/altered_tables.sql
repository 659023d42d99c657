-- Which of the tables named are there, for an index its table; null: all that are.
select distinct t.relname::text
from pg_catalog.pg_class c
left join pg_catalog.pg_index i on i.indexrelid = c.oid
join pg_catalog.pg_class t on t.oid = coalesce(i.indrelid, c.oid)
where c.relnamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = 'outbox')
  and t.relkind in ('r', 'p') and not t.relispartition
  and ($1::text[] is null or c.relname = any ($1::text[]))

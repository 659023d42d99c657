-- Whether the schema's table migration has our columns; null: there is no such relation.
select (select count(*) from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and not a.attisdropped
            and a.attname in ('version', 'name', 'applied_at', 'min_compatible')) = 4
from (select pg_catalog.to_regclass('outbox.migration')) c(oid)
where c.oid is not null

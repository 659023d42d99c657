-- Whether ended messages are kept, by what relays wrote down; until when partitions cover the time from now on without a gap, null:
-- now is not covered; the end of the next partition but one as it should be; the default partition, and what is in it of now and later.
with recursive covered(upper) as (
    select p.upper from outbox.partitions() p where p.lower <= clock_timestamp() and p.upper > clock_timestamp()
    union
    select p.upper from covered c join outbox.partitions() p on p.lower = c.upper
), hole as (
    select coalesce((select max(c.upper) from covered c), date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC') as lower
)
select coalesce((select s.value from outbox.setting s where s.name = 'archive'), 'off') <> 'off',
       coalesce(to_char((select nullif(max(c.upper), 'infinity') from covered c) at time zone 'UTC', 'YYYY-MM-DD'), ''),
       (select max(c.upper) from covered c) >= outbox.partition_bound(clock_timestamp(), $1, 2) is true,
       exists (select from pg_inherits i join pg_class p on p.oid = i.inhrelid
               where i.inhparent = 'outbox.archive'::regclass and pg_get_expr(p.relpartbound, p.oid) = 'DEFAULT'),
       to_regclass('outbox.archive_default') is not null,
       -- A table that keeps a relay from making the next partition: one that was detached.
       coalesce((select t.relname::text from pg_class t join pg_namespace n on n.oid = t.relnamespace, hole h
                 where n.nspname = 'outbox' and t.relkind in ('r', 'p') and not t.relispartition
                   and t.relname like 'archive\_' || to_char(h.lower at time zone 'UTC', 'YYYYMMDD') || '\_%'
                 order by t.relname limit 1), '')

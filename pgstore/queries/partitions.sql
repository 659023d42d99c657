-- The running count is lost with the statistics, and after a crash: nothing in a table that has pages is no count.
select c.relname::text, p.lower, p.upper, greatest(pg_stat_get_live_tuples(c.oid), 0),
       pg_stat_get_live_tuples(c.oid) <= 0 and pg_relation_size(c.oid) > 0, pg_total_relation_size(c.oid)
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
left join outbox.partitions() p on p.name = c.relname
where i.inhparent = 'outbox.archive'::regclass
order by p.lower nulls last
limit 10000

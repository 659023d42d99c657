-- What a relay lacks. It works as the calling user on the tables; nothing but publishing runs with the owner's rights.
select p.object || ': ' || p.privilege
from (
    select 'schema outbox' as object, 'usage' as privilege, has_schema_privilege(n.oid, 'usage') as granted
    from pg_namespace n where n.nspname = 'outbox'
    union all
    select 'table ' || t.name, r.privilege, has_table_privilege(c.oid, r.privilege)
    from (values ('message'), ('waiting'), ('dead'), ('claim'), ('relay'), ('dedup'), ('archive')) t(name)
    join pg_namespace n on n.nspname = 'outbox'
    join pg_class c on c.relnamespace = n.oid and c.relname = t.name
    cross join (values ('select'), ('insert'), ('update'), ('delete')) r(privilege)
    union all
    select 'table migration', 'select', has_table_privilege(c.oid, 'select')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'outbox' and c.relname = 'migration'
    union all
    select 'sequence ' || c.relname, 'usage', case c.relkind when 'S' then has_sequence_privilege(c.oid, 'usage') end
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'outbox' and c.relkind = 'S'
    union all
    select 'function ' || f.proname, 'execute', has_function_privilege(f.oid, 'execute')
    from pg_proc f join pg_namespace n on n.oid = f.pronamespace
    where n.nspname = 'outbox' and f.prorettype <> 'trigger'::regtype and f.proname not in (
        -- what only owners and operators call
        'set_notify', 'redrive', 'retry', 'replay', 'discard', 'discard_held', 'purge', 'pause', 'resume', 'check_pause', 'operations', 'change',
        'change_filter', 'change_page', 'change_counts', 'change_tables', 'look_at_rows', 'redrive_rows', 'retry_rows', 'replay_rows', 'discard_rows',
        'purge_partition', 'purge_rows', 'end_discarded', 'move_from_default', 'wake_relays')
) p
where not p.granted
order by 1

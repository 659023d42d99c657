-- What a relay lacks, and the line that grants it. It works as the calling user on the tables; publishing, settling in
-- handlers' transactions and operating are functions with the owner's rights, which it does not call.
select p.object || ': ' || p.privilege, format('grant %s on %s to %I;', p.privilege, p.object, current_user)
from (
    select 'schema ' || n.oid::regnamespace as object, 'usage' as privilege, has_schema_privilege(n.oid, 'usage') as granted
    from pg_namespace n where n.nspname = 'outbox'
    union all
    select 'table ' || c.oid::regclass, r.privilege, has_table_privilege(c.oid, r.privilege)
    from (values
        ('message', array['select', 'update', 'delete']), ('dedup', array['select', 'update', 'delete']),
        ('waiting', array['select', 'insert', 'update', 'delete']), ('dead', array['select', 'insert', 'update', 'delete']),
        ('claim', array['select', 'insert', 'update', 'delete']), ('relay', array['select', 'insert', 'update', 'delete']),
        ('archive', array['select', 'insert', 'update', 'delete']),
        ('migration', array['select']), ('control', array['select']), ('setting', array['select'])
    ) t(name, privileges)
    join pg_namespace n on n.nspname = 'outbox'
    join pg_class c on c.relnamespace = n.oid and c.relname = t.name
    cross join unnest(t.privileges) r(privilege)
    union all
    select 'sequence ' || c.oid::regclass, 'select', case c.relkind when 'S' then has_sequence_privilege(c.oid, 'select') end
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'outbox' and c.relname = 'seq'
    union all
    select 'function ' || f.oid::regprocedure, 'execute', has_function_privilege(f.oid, 'execute')
    from pg_proc f join pg_namespace n on n.oid = f.pronamespace
    where n.nspname = 'outbox' and f.prorettype <> 'trigger'::regtype and f.proname not in (
        -- what publishers, handlers, owners and operators call
        'publish', 'publish_json', 'publish_row', 'new_id', 'take_dedup_key', 'with_content_type', 'check_times', 'lock_keys',
        'settle_tx', 'set_notify', 'redrive', 'retry', 'replay', 'discard', 'discard_held', 'purge', 'pause', 'resume', 'check_pause',
        'operations', 'change', 'change_filter', 'change_page', 'change_counts', 'change_tables', 'look_at_rows', 'redrive_rows',
        'untaken_rows', 'retry_rows', 'reroute_rows', 'unheld_rows', 'replay_rows', 'discard_rows', 'purge_partition', 'purge_rows', 'end_discarded', 'move_from_default', 'wake_relays')
) p
where not p.granted
order by 1

create function outbox.redrive(
    ids uuid[] default null, topic text default null, key text default null,
    error_class text default null, error_text text default null,
    older_than interval default null, newer_than interval default null, everything boolean default false,
    max_messages bigint default null, actor text default null, reason text default null,
    dry_run boolean default false, rate int default null, batch int default 500, operation bigint default null,
    destination text default null, by_route boolean default false,
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb;
begin
    if operation is null then
        filter := outbox.change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages,
            null, destination, by_route);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from outbox.change('redrive', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;
comment on function outbox.redrive is 'Dead messages are delivered again: due now, attempts from 0, the generation one higher, their keys held from now on. destination: those that a replay has bound to it; by_route ends the binding. Bound ones that no live relay would take are left alone and counted as held. One batch: while more is true, call it again with operation => operation_id.';
revoke execute on function outbox.redrive from public;

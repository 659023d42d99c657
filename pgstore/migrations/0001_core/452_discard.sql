create function outbox.discard(
    ids uuid[] default null, topic text default null, key text default null,
    error_class text default null, error_text text default null,
    older_than interval default null, newer_than interval default null, everything boolean default false,
    max_messages bigint default null, actor text default null, reason text default null,
    dry_run boolean default false, rate int default null, batch int default 500, operation bigint default null,
    states text[] default null, destination text default null,
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb;
begin
    if operation is null and not coalesce(dry_run, false) and coalesce(reason, '') = '' then
        raise invalid_parameter_value using message = 'a discard needs a reason';
    end if;
    if operation is null and not states <@ '{ready,waiting,dead}' then
        raise invalid_parameter_value using message = format('states %L: must be some of ready, waiting, dead', states);
    end if;
    if operation is null then
        filter := outbox.change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages, states,
            destination);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from outbox.change('discard', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;
comment on function outbox.discard is 'Removes ready, waiting or dead messages for a reason. One that a live relay holds is left alone and counted as held. destination: those that a replay has bound to it. One batch: while more is true, call it again with operation => operation_id.';
revoke execute on function outbox.discard from public;

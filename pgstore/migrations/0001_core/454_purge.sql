create function outbox.purge(
    states text[] default null, -- all of them
    ids uuid[] default null, topic text default null, key text default null,
    error_class text default null, error_text text default null,
    older_than interval default null, newer_than interval default null, everything boolean default false,
    holding boolean default false,
    max_messages bigint default null, actor text default null, reason text default null,
    dry_run boolean default false, rate int default null, batch int default 500, operation bigint default null,
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb;
begin
    if operation is null then
        if not states <@ '{delivered,dropped,expired,discarded,dead}' then
            raise invalid_parameter_value using message = format('states %L: must be some of delivered, dropped, expired, discarded, dead', states);
        end if;
        filter := outbox.change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages, states)
            || jsonb_build_object('states', coalesce(states, '{delivered,dropped,expired,discarded,dead}'), 'holding', coalesce(holding, false));
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from outbox.change('purge', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;
comment on function outbox.purge is 'Forgets messages that have ended, or are dead: of these states, without states of all of them; never ready, waiting or claimed ones. A call without any filter is refused unless everything. Dead ones that hold their key are left alone and counted as held unless holding. Ages count from the end or the death. One batch: while more is true, call it again with operation => operation_id.';
revoke execute on function outbox.purge from public;

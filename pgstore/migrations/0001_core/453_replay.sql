create function outbox.replay(
    destination text default null,
    ids uuid[] default null, topic text default null, key text default null, error_text text default null,
    older_than interval default null, newer_than interval default null, everything boolean default false,
    max_messages bigint default null, actor text default null, reason text default null,
    dry_run boolean default false, rate int default null, batch int default 500, operation bigint default null,
    states text[] default null, -- delivered ones
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out bare bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb;
begin
    if operation is null then
        if destination is null or destination !~ '^[a-z0-9_-]{1,64}$' then
            raise invalid_parameter_value using message = format('destination %L: must be 1 to 64 of the characters a-z 0-9 _ -', destination);
        end if;
        if not states <@ '{delivered,dropped,expired,discarded}' then
            raise invalid_parameter_value using message = format('states %L: must be some of delivered, dropped, expired, discarded', states);
        end if;
        filter := outbox.change_filter(ids, topic, key, null, error_text, older_than, newer_than, everything, max_messages, states)
            || jsonb_build_object('states', coalesce(states, '{delivered}'), 'destination', destination);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.bare, c.more into operation_id, matched, changed, held, bare, more
    from outbox.change('replay', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;
comment on function outbox.replay is 'Archived messages are delivered again, to one destination: the generation one higher, their keys held there from now on. held are under way already, bare were kept without payload. Ages count from the end of a message. One batch: while more is true, call it again with operation => operation_id.';
revoke execute on function outbox.replay from public;

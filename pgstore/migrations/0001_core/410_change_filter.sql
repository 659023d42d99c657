-- Which messages an operator means. Ages become times, so that an operation that is continued later means the same
-- messages; ids become seqs, because everything else goes by seq. No filter at all is refused unless everything is
-- meant: a forgotten argument must not change the whole outbox.
create function outbox.change_filter(
    ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval,
    everything boolean, max_messages bigint, states text[] default null, destination text default null, by_route boolean default false
) returns jsonb
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb := jsonb_strip_nulls(jsonb_build_object(
        'ids', to_jsonb(ids), 'topic', topic, 'key', key, 'class', error_class, 'text', error_text,
        'states', to_jsonb(states), 'destination', destination, 'before', clock_timestamp() - older_than, 'after', clock_timestamp() - newer_than));
begin
    if filter = '{}' and not coalesce(everything, false) then
        raise invalid_parameter_value using message = 'no filter: give one, or everything => true';
    end if;
    if filter <> '{}' and everything then
        raise invalid_parameter_value using message = 'a filter and everything: give one of them';
    end if;
    if key = '' or error_class = '' or error_text = '' then
        raise invalid_parameter_value using message = 'key, error_class, error_text: must not be empty; null is no filter';
    end if;
    if topic !~ '^(([A-Za-z0-9_-]+|\*)\.)*([A-Za-z0-9_-]+|\*|>)$' then
        raise invalid_parameter_value using message = format('topic %L: must be a topic or a pattern such as orders.*.created or orders.>', topic);
    end if;
    if states = '{}' then
        raise invalid_parameter_value using message = 'states: must not be empty; null is no filter';
    end if;
    if destination !~ '^[a-z0-9_-]{1,64}$' then
        raise invalid_parameter_value using message = format('destination %L: must be 1 to 64 of the characters a-z 0-9 _ -', destination);
    end if;
    if destination is not null and states <@ '{ready}' then
        raise invalid_parameter_value using message = 'destination: ready messages are bound to none';
    end if;
    if by_route and destination is null then
        raise invalid_parameter_value using message = 'by_route: needs the destination that the messages are bound to';
    end if;
    if older_than < interval '0' or newer_than < interval '0' then
        raise invalid_parameter_value using message = 'an age must not be negative';
    end if;
    if max_messages < 1 then
        raise invalid_parameter_value using message = format('max_messages is %s: must be 1 or more', max_messages);
    end if;
    if ids is not null then
        filter := filter || jsonb_build_object('seqs',
            -- What has ended is not looked for in the message table.
            (with archived as materialized (select a.id, a.seq from outbox.archive a where a.id = any (ids))
             select coalesce(jsonb_agg(l.seq order by l.seq), '[]') from (
                 select a.seq from archived a
                 union select w.seq from outbox.waiting w where w.id = any (ids)
                 union select d.seq from outbox.dead d where d.id = any (ids)
                 union select x.seq from outbox.locate(array(select unnest(ids) except select a.id from archived a)) x) l));
    end if;
    if max_messages is not null then
        filter := filter || jsonb_build_object('limit', max_messages);
    end if;
    if by_route then
        filter := filter || '{"by_route": true}';
    end if;
    return filter;
end
$$;
comment on function outbox.change_filter is 'Internal: the filter of an operation.';
revoke execute on function outbox.change_filter from public;

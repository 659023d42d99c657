-- Everything that CHECK constraints need and cannot say in one expression. Constants only, so that a dump
-- restores in any order.
create function outbox.headers_valid(headers jsonb) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if headers = '{}' then
        return true;
    end if;
    if jsonb_typeof(headers) <> 'object' then
        return false;
    end if;
    return (
        select count(*) <= 64
           and count(distinct lower(h.name)) = count(*)
           and sum(octet_length(h.name) + octet_length(h.value #>> '{}')) <= 16384
           and bool_and(jsonb_typeof(h.value) = 'string')
           and bool_and(h.name ~ '^[A-Za-z0-9._-]{1,64}$')
           and bool_and(h.name !~* '^(outbox|nats)-' or h.name = 'Outbox-Causation')
           and bool_and(h.value #>> '{}' !~ '[\x01-\x1f\x7f-\x9f]')
        from jsonb_each(headers) h(name, value)
    );
end
$$;
comment on function outbox.headers_valid(jsonb) is 'At most 64 string headers, 16 KiB together, names unique without case and not reserved but for Outbox-Causation, values without control characters.';

-- Refuses a row as its CHECK constraint would. The error of a CHECK itself shows the whole row, payload included, to whoever
-- published it and in the server's log. So each constraint is "it holds, or refuse", which is asked only when it does not hold. Volatile, or
-- the planner would ask it once for all.
create function outbox.refuse(name text, value text default null) returns boolean
language plpgsql volatile parallel safe set search_path = pg_catalog, pg_temp
as $$
declare
    of_table  constant text := split_part(name, '_', 1);
    of_column constant text := substr(name, length(of_table) + 2);
begin
    raise check_violation using
        message = concat(of_column, ' ' || quote_literal(left(value, 80)), ': ', case of_column
            when 'topic' then 'must be tokens of A-Z a-z 0-9 _ - joined by dots, such as orders.created, at most 255 bytes'
            when 'key' then 'must be 1 to 512 bytes without control characters, or null'
            when 'payload' then 'must be at most 67108864 bytes'
            when 'headers' then 'must be an object of at most 64 strings, 16384 bytes together: names of 1 to 64 of A-Z a-z 0-9 . _ -, unique without '
                'case, that do not begin with Outbox- or Nats-; values without control characters'
            when 'dedup_key' then 'must be 1 to 255 bytes, or null'
            when 'max_attempts' then 'must be 1 or more, 0 for unlimited, or null for the relay''s rule'
            when 'broker_ttl' then 'must be above zero, or null'
            else 'must be finite'
        end),
        schema = 'outbox', table = of_table, column = of_column, constraint = name;
end
$$;
comment on function outbox.refuse(text, text) is 'Internal: raises the violation of the CHECK of this name, without the row; the value is shown.';

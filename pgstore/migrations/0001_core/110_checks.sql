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

create function outbox.with_content_type(headers jsonb, content_type text) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    given text;
begin
    if content_type is null or jsonb_typeof(headers) <> 'object' then
        return headers; -- what is not an object is refused by the table's CHECK, which has a name
    end if;
    select h.value into given from jsonb_each_text(headers) h(name, value) where lower(h.name) = 'content-type';
    if not found then
        return headers || jsonb_build_object('content-type', content_type);
    end if;
    if given is distinct from content_type then
        raise invalid_parameter_value using
            message = format('content_type is %L, but the header content-type says %L', content_type, given);
    end if;
    return headers;
end
$$;
comment on function outbox.with_content_type(jsonb, text) is 'Internal: headers with the content type among them.';
revoke execute on function outbox.with_content_type(jsonb, text) from public;

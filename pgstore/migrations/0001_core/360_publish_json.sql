-- A name of its own, because an untyped literal would be ambiguous between bytea and json.
create function outbox.publish_json(
    topic text, payload json, key text default null, headers jsonb default '{}', content_type text default null,
    delay interval default null, deliver_at timestamptz default null,
    ttl interval default null, expires_at timestamptz default null, broker_ttl interval default null,
    dedup_key text default null, max_attempts int default null, id uuid default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if content_type is null
        and not exists (select from jsonb_object_keys(
            case jsonb_typeof(headers) when 'object' then headers else '{}' end) h(name)
            where lower(h.name) = 'content-type')
    then
        content_type := 'application/json';
    end if;
    return outbox.publish(
        topic => topic, payload => convert_to(payload::text, 'UTF8'), key => key, headers => headers,
        content_type => content_type, delay => delay, deliver_at => deliver_at, ttl => ttl,
        expires_at => expires_at, broker_ttl => broker_ttl, dedup_key => dedup_key,
        max_attempts => max_attempts, id => id);
end
$$;
comment on function outbox.publish_json is 'Like publish for a JSON payload, kept as it is written; its content type is application/json unless given.';
revoke execute on function outbox.publish_json from public;

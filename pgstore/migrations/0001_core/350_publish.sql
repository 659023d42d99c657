create function outbox.publish(
    topic text, payload bytea, key text default null, headers jsonb default '{}', content_type text default null,
    delay interval default null, deliver_at timestamptz default null,
    ttl interval default null, expires_at timestamptz default null, broker_ttl interval default null,
    dedup_key text default null, max_attempts int default null, id uuid default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    payload_max constant bigint := coalesce(
        (select s.value::bigint from outbox.setting s where s.name = 'payload_max'), 1048576);
    published uuid;
begin
    if octet_length(payload) > payload_max then
        raise check_violation using
            message = format('payload has %s bytes, the limit is %s', octet_length(payload), payload_max),
            hint = 'The limit is the setting payload_max.',
            schema = 'outbox', table = 'message', column = 'payload', constraint = 'message_payload_max';
    end if;
    perform outbox.check_times(delay, deliver_at, ttl, expires_at);
    if key is not null
        and (select s.value from outbox.setting s where s.name = 'lock_keys') = 'on'
    then
        perform outbox.lock_keys(array[key]);
    end if;
    published := outbox.publish_row(
        id => coalesce(id, outbox.new_id()), own_id => id is not null,
        topic => topic, key => key, payload => payload,
        headers => outbox.with_content_type(coalesce(headers, '{}'), content_type), max_attempts => max_attempts,
        broker_ttl => broker_ttl, ttl => ttl, expires_at => expires_at,
        delay => delay, deliver_at => deliver_at, dedup_key => dedup_key);
    if published is not null
        and coalesce((select s.value from outbox.setting s where s.name = 'notify'), 'publish') = 'publish'
    then
        perform pg_notify('outbox', ''); -- a hint; the same one several times in a transaction is sent once
    end if;
    return published;
end
$$;
comment on function outbox.publish is 'Publishes a message in the current transaction and returns its id; null: a message with this dedup key is there already. An id that is taken is error 23505. max_attempts 0: unlimited, null: the relay''s rule.';
revoke execute on function outbox.publish from public;

-- What all ways to publish have in common, for messages that need more than an INSERT: a dedup key, a caller's own
-- id, a time. The limits are the tables' CHECKs.
create function outbox.publish_row(
    id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts int,
    broker_ttl interval, ttl interval, expires_at timestamptz, delay interval, deliver_at timestamptz,
    dedup_key text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    n      bigint;
    now_at timestamptz;
    due    timestamptz;
    ends   timestamptz;
begin
    -- An INSERT would refuse these as well, with the row in its error.
    if topic is null or payload is null then
        raise not_null_violation using
            message = case when topic is null then 'topic' else 'payload' end || ': must not be null',
            schema = 'outbox', table = 'message', column = case when topic is null then 'topic' else 'payload' end;
    end if;
    if topic = '' then -- which belongs to ids
        perform outbox.refuse('message_topic', topic);
    end if;
    -- Before the seq is drawn, as an INSERT does it: who has drawn one and not ended is found by this lock, and below there
    -- may be a long wait (pgstore/base.go).
    lock table outbox.message in row exclusive mode;
    n := nextval('outbox.seq');
    if dedup_key is not null and not outbox.take_dedup_key(topic, dedup_key, id, n) then
        return null;
    end if;
    if own_id and not outbox.take_dedup_key('', id::text, id, n) then
        raise unique_violation using
            message = format('a message with the id %s exists already', id),
            schema = 'outbox', table = 'message', column = 'id', constraint = 'message_id_unique';
    end if;

    now_at := clock_timestamp(); -- after the waits above
    due := coalesce(deliver_at, now_at + delay);
    ends := coalesce(expires_at, now_at + ttl);
    if due > now_at then
        insert into outbox.waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at, available_at)
        values (n, publish_row.id, publish_row.topic, publish_row.key, publish_row.payload, publish_row.headers,
            publish_row.dedup_key, publish_row.max_attempts, publish_row.broker_ttl, ends, now_at, due);
    else
        insert into outbox.message (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at)
        values (n, publish_row.id, publish_row.topic, publish_row.key, publish_row.payload, publish_row.headers,
            publish_row.dedup_key, publish_row.max_attempts, publish_row.broker_ttl, ends, now_at);
    end if;
    return publish_row.id;
end
$$;
comment on function outbox.publish_row is 'Internal: inserts one message; null: the dedup key is taken. Use publish or publish_json.';
revoke execute on function outbox.publish_row from public;

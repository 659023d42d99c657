-- Messages of which at least one has a dedup key, an id of the caller's or a time, in the order given. Returns for
-- each the id of the transaction, or null if its dedup key is taken. LockKeys as in publish_insert.sql.
-- Only what was published notifies.
with published as materialized (
    select outbox.publish_row(id => m.id, own_id => m.own_id, topic => m.topic, key => m.key,
        payload => substr($1::bytea, m.first, m.length), headers => m.headers, max_attempts => m.max_attempts,
        broker_ttl => m.broker_ttl, ttl => m.ttl, expires_at => m.expires_at, delay => m.delay,
        deliver_at => m.deliver_at, dedup_key => m.dedup_key) as id
    from unnest($2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::int[], $6::text::int[],
        $7::text::jsonb[], $8::text::int[], $9::text::interval[], $10::text::interval[], $11::text::timestamptz[],
        $12::text::boolean[], $13::text::interval[], $14::text::timestamptz[], $15::text::text[])
        as m(id, topic, key, first, length, headers, max_attempts, broker_ttl, ttl, expires_at,
            own_id, delay, deliver_at, dedup_key)
    -- LockKeys: where (select outbox.lock_keys($4::text::text[]))
)
select case when p.id is not null then pg_current_xact_id() end::text,
    case when p.id is not null and $16::text = 'notify' then pg_notify('outbox', '') end::text
from published p

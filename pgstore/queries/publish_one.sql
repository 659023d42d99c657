-- One plain message, the most frequent call: publish_insert.sql without the cost of arrays.
with published as (
    insert into outbox.message (id, topic, key, payload, headers, max_attempts, broker_ttl, expires_at)
    values ($1::text::uuid, $2::text, $3::text, $4::bytea, $5::text::jsonb, $6::text::int, $7::text::interval,
        coalesce($8::text::timestamptz, clock_timestamp() + $9::text::interval))
)
select pg_current_xact_id()::text, case when $10::text = 'notify' then pg_notify('outbox', '') end::text

-- Plain messages: no dedup key, no id of the caller's, no time. $1 is all payloads together, cut apart by first and
-- length, because only scalars and text are encoded alike by every driver; the rest are arrays in text form.
-- The rows come from one scan of a function, so the default of seq numbers them in the order given.
-- With LockKeys the condition, which is evaluated once and before the first row, locks the keys before seqs are drawn.
-- No table is read: in a SERIALIZABLE transaction this can't be part of a conflict. The notification is in the same
-- statement: no further round trip, and a savepoint that takes the messages back takes it back. Returns the id of the
-- transaction, by which a Store can ask whether it has ended.
with published as (
    insert into outbox.message (id, topic, key, payload, headers, max_attempts, broker_ttl, expires_at)
    select m.id, m.topic, m.key, substr($1::bytea, m.first, m.length), m.headers, m.max_attempts, m.broker_ttl,
        coalesce(m.expires_at, clock_timestamp() + m.ttl)
    from unnest($2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::int[], $6::text::int[],
        $7::text::jsonb[], $8::text::int[], $9::text::interval[], $10::text::interval[], $11::text::timestamptz[])
        as m(id, topic, key, first, length, headers, max_attempts, broker_ttl, ttl, expires_at)
    -- LockKeys: where (select outbox.lock_keys($4::text::text[]))
)
select pg_current_xact_id()::text, case when $12::text = 'notify' then pg_notify('outbox', '') end::text

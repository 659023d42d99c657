-- One line of numbers for message and waiting. CACHE 1: a session must not hold numbers back, since the
-- order of a key is the order of seq.
create sequence outbox.seq cache 1;

create table outbox.message (
    seq          bigint primary key default nextval('outbox.seq'),
    id           uuid not null,
    topic        text collate "C" not null,
    key          text collate "C",
    payload      bytea not null,
    headers      jsonb not null default '{}',
    dedup_key    text,
    max_attempts int,
    broker_ttl   interval,
    expires_at   timestamptz,
    published_at timestamptz not null default clock_timestamp(),
    constraint message_topic check ((octet_length(topic) <= 255 and topic ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$') is not false or outbox.refuse('message_topic', topic)),
    constraint message_key check ((octet_length(key) between 1 and 512 and key !~ '[\x01-\x1f\x7f-\x9f]') is not false or outbox.refuse('message_key')),
    constraint message_payload check ((octet_length(payload) <= 67108864) is not false or outbox.refuse('message_payload')),
    constraint message_headers check (outbox.headers_valid(headers) or outbox.refuse('message_headers')),
    constraint message_dedup_key check ((octet_length(dedup_key) between 1 and 255) is not false or outbox.refuse('message_dedup_key')),
    constraint message_max_attempts check ((max_attempts >= 0) is not false or outbox.refuse('message_max_attempts')),
    constraint message_broker_ttl check ((broker_ttl > interval '0') is not false or outbox.refuse('message_broker_ttl')),
    constraint message_times check ((isfinite(published_at) and isfinite(expires_at)) is not false or outbox.refuse('message_times'))
) with (
    -- Rows live for milliseconds and die in masses: vacuum by count, unthrottled, before the dead prefix
    -- of the index is worth noticing.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);
create index message_key on outbox.message (key, seq) include (topic) where key is not null;

comment on table outbox.message is 'Ready messages. Publishers insert, settling deletes, nothing ever updates.';
comment on column outbox.message.seq is 'publish order';
comment on column outbox.message.id is 'UUID, stable over all attempts; what consumers deduplicate by';
comment on column outbox.message.topic is 'tokens of A-Z a-z 0-9 _ - joined by dots';
comment on column outbox.message.key is 'messages of one key are delivered one after another; null: no order';
comment on column outbox.message.headers is 'names to string values';
comment on column outbox.message.dedup_key is 'publishing again with this key and topic is a duplicate';
comment on column outbox.message.max_attempts is 'null: the relay''s rule, 0: unlimited';
comment on column outbox.message.broker_ttl is 'how long a broker keeps the message, from its delivery to it';
comment on column outbox.message.expires_at is 'not delivered from then on';

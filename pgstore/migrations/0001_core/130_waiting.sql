create table outbox.waiting (
    seq             bigint primary key default nextval('outbox.seq'),
    id              uuid not null,
    topic           text collate "C" not null,
    key             text collate "C",
    payload         bytea not null,
    headers         jsonb not null default '{}',
    dedup_key       text,
    max_attempts    int,
    broker_ttl      interval,
    expires_at      timestamptz,
    published_at    timestamptz not null default clock_timestamp(),
    generation      int not null default 0,
    attempts        int not null default 0,
    lapses          int not null default 0,
    holds           boolean not null default false,
    destination     text,
    available_at    timestamptz not null,
    first_failed_at timestamptz,
    failed_at       timestamptz,
    error_class     text,
    last_error      text,
    constraint waiting_topic check ((octet_length(topic) <= 255 and topic ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$') is not false or outbox.refuse('waiting_topic', topic)),
    constraint waiting_key check ((octet_length(key) between 1 and 512 and key !~ '[\x01-\x1f\x7f-\x9f]') is not false or outbox.refuse('waiting_key')),
    constraint waiting_payload check ((octet_length(payload) <= 67108864) is not false or outbox.refuse('waiting_payload')),
    constraint waiting_headers check (outbox.headers_valid(headers) or outbox.refuse('waiting_headers')),
    constraint waiting_dedup_key check ((octet_length(dedup_key) between 1 and 255) is not false or outbox.refuse('waiting_dedup_key')),
    constraint waiting_max_attempts check ((max_attempts >= 0) is not false or outbox.refuse('waiting_max_attempts')),
    constraint waiting_broker_ttl check ((broker_ttl > interval '0') is not false or outbox.refuse('waiting_broker_ttl')),
    constraint waiting_times check ((isfinite(published_at) and isfinite(expires_at) and isfinite(available_at)) is not false or outbox.refuse('waiting_times'))
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);
create index waiting_available on outbox.waiting (available_at, seq);
create index waiting_key on outbox.waiting (key, seq) where key is not null and holds;
create index waiting_id on outbox.waiting (id);
create index waiting_suspect on outbox.waiting (available_at, seq) where lapses > 0;
create index waiting_bound on outbox.waiting (destination, topic) where destination is not null;

comment on table outbox.waiting is 'Messages that are not to be delivered before available_at: scheduled, backing off, redriven, replayed.';
comment on column outbox.waiting.holds is 'younger messages of the key wait for this one';
comment on column outbox.waiting.destination is 'bound to it by a replay: only its lanes take it; null: by route';
comment on column outbox.waiting.attempts is 'failed attempts so far';
comment on column outbox.waiting.lapses is '2 after a crash: it is claimed alone';

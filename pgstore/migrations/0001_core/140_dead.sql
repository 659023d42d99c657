create table outbox.dead (
    seq             bigint primary key,
    id              uuid not null,
    topic           text collate "C" not null,
    key             text collate "C",
    payload         bytea not null,
    headers         jsonb not null,
    dedup_key       text,
    max_attempts    int,
    broker_ttl      interval,
    expires_at      timestamptz,
    published_at    timestamptz not null,
    generation      int not null default 0,
    attempts        int not null default 0,
    lapses          int not null default 0,
    holds           boolean not null default false,
    destination     text,
    available_at    timestamptz,
    first_failed_at timestamptz,
    failed_at       timestamptz,
    error_class     text,
    last_error      text,
    died_at         timestamptz not null default clock_timestamp()
);
create index dead_key on outbox.dead (key, seq) where holds;
create index dead_free on outbox.dead (key) where key is not null and not holds;
create index dead_id on outbox.dead (id);
create index dead_topic on outbox.dead (topic, died_at);

comment on table outbox.dead is 'Dead letters: no further attempt unless an operator redrives them.';
comment on column outbox.dead.holds is 'a parked key: younger messages wait until this one is redriven or discarded';

create table outbox.archive (
    seq          bigint not null,
    id           uuid not null,
    topic        text collate "C" not null,
    key          text collate "C",
    payload      bytea,
    headers      jsonb not null,
    dedup_key    text,
    max_attempts int,
    broker_ttl   interval,
    expires_at   timestamptz,
    published_at timestamptz not null,
    generation   int not null default 0,
    attempts     int not null default 0,
    destination  text,
    outcome      text not null,
    detail       text,
    actor        text,
    ended_at     timestamptz not null,
    primary key (seq, generation, ended_at),
    constraint archive_outcome check (outcome in ('delivered', 'dropped', 'expired', 'discarded'))
) partition by range (ended_at);
create table outbox.archive_default partition of outbox.archive default;
create index archive_id on outbox.archive (id);
create index archive_ended on outbox.archive (ended_at);

comment on table outbox.archive is 'Ended messages, when they are kept; one that was replayed is here once per generation.';
comment on column outbox.archive.payload is 'null: it was not kept';
comment on column outbox.archive.attempts is 'the one that delivered it included';
comment on column outbox.archive.detail is 'why it was dropped or discarded';
comment on column outbox.archive.actor is 'who discarded it';
comment on table outbox.archive_default is 'Rows whose partition does not exist.';

create table outbox.dedup (
    topic      text collate "C" not null,
    dedup_key  text collate "C" not null,
    id         uuid not null,
    seq        bigint not null,
    expires_at timestamptz not null,
    primary key (topic, dedup_key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index dedup_expires on outbox.dedup (expires_at);

comment on table outbox.dedup is 'Dedup keys, and caller-given ids as topic '''' with the id as key. A row blocks until it has expired and its message is gone.';

-- As its documentation has it.
create table if not exists outbox (
    id uuid primary key,
    created_at timestamp with time zone not null,
    scheduled_at timestamp with time zone not null,
    metadata bytea,
    payload bytea not null,
    times_attempted integer not null
);
create index if not exists idx_outbox_created_at on outbox (created_at);
create index if not exists idx_outbox_scheduled_at on outbox (scheduled_at)

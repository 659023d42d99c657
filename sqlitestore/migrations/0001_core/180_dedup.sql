-- Dedup keys, and caller-given ids as topic '' with the id as key. A row blocks until it has expired and its message
-- is gone.
create table outbox_dedup (
    topic      text not null,
    dedup_key  text not null,
    id         text not null,
    seq        integer not null,
    expires_at integer not null,
    primary key (topic, dedup_key)
) strict, without rowid;
create index outbox_dedup_expires on outbox_dedup (expires_at, seq);

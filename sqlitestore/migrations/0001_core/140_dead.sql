-- Dead letters: no further attempt unless an operator redrives them.
create table outbox_dead (
    seq             integer primary key,
    id              text not null,
    topic           text not null,
    key             text,
    payload         blob not null,
    headers         text not null,
    dedup_key       text,
    max_attempts    integer,
    broker_ttl      integer,
    expires_at      integer,
    published_at    integer not null,
    generation      integer not null default 0,
    attempts        integer not null default 0,
    lapses          integer not null default 0,
    holds           integer not null default 0,   -- a parked key
    destination     text,                         -- of one that was replayed
    first_failed_at integer,
    failed_at       integer,
    error_class     text,
    last_error      text,
    died_at         integer not null
) strict;
create index outbox_dead_key on outbox_dead (key, seq, topic) where key is not null;
create index outbox_dead_topic on outbox_dead (topic, died_at);
create index outbox_dead_died on outbox_dead (died_at);
create index outbox_dead_id on outbox_dead (id);

-- Messages that are not to be delivered before available_at: scheduled, backing off, redriven, replayed.
create table outbox_waiting (
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
    lapses          integer not null default 0,   -- 2 after a crash: it is claimed alone
    holds           integer not null default 0,   -- younger messages of the key wait for this one
    destination     text,                         -- bound to it by a replay: its only one; null: by route
    available_at    integer not null,
    first_failed_at integer,
    failed_at       integer,
    error_class     text,
    last_error      text
) strict;
create index outbox_waiting_available on outbox_waiting (available_at, seq);
create index outbox_waiting_key on outbox_waiting (key, seq, topic) where key is not null;
create index outbox_waiting_topic on outbox_waiting (topic);
create index outbox_waiting_id on outbox_waiting (id);
create index outbox_waiting_bound on outbox_waiting (destination, topic) where destination is not null;
create index outbox_waiting_suspect on outbox_waiting (available_at, seq) where lapses > 0;

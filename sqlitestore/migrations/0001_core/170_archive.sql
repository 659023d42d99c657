-- Messages that have ended, where they are kept; one that was replayed is here once per generation. The payload is the last
-- column, so that who looks at the others need not read over it.
create table outbox_archive (
    seq          integer not null,
    generation   integer not null,
    id           text not null,
    topic        text not null,
    key          text,
    outcome      text not null check (outcome in ('delivered', 'dropped', 'expired', 'discarded')),
    ended_at     integer not null,
    attempts     integer not null,   -- the one that delivered it included
    destination  text,
    detail       text,               -- why it was dropped or discarded
    actor        text,               -- who discarded it
    dedup_key    text,
    max_attempts integer,
    broker_ttl   integer,
    expires_at   integer,
    published_at integer not null,
    headers      text not null,
    payload      blob,               -- null: it was not kept
    primary key (seq, generation)
) strict;
create index outbox_archive_ended on outbox_archive (ended_at);
create index outbox_archive_id on outbox_archive (id);

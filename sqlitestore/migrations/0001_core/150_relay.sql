-- Live relays. The lease covers all claims of the relay; a claim call removes relays whose lease has lapsed.
create table outbox_relay (
    id           text primary key,
    lease_until  integer not null,
    lease        integer not null,
    beat         integer not null,
    host         text not null,
    pid          integer not null,
    version      text not null,
    engine       text not null,
    settings     text not null,   -- a digest; empty: unknown
    lanes        text not null check (json_valid(lanes)),
    counters     text not null check (json_valid(counters)),
    started_at   integer not null,
    seen_at      integer not null
) strict, without rowid;

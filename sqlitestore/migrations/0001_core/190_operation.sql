-- Pauses: a topic pattern or a destination that no relay claims from. Its messages still hold their keys.
create table outbox_control (
    scope  text not null check (scope in ('topic', 'destination')),
    name   text not null,
    reason text not null,
    actor  text not null,
    at     integer not null,
    primary key (scope, name)
) strict, without rowid;

-- What operators did: who, why, with what counts.
create table outbox_operation (
    id          integer primary key autoincrement,
    verb        text not null,
    filter      text not null check (json_valid(filter)),   -- which messages; ages as times
    cursor      text not null check (json_valid(cursor)),   -- how far it has come
    rate        integer not null default 0,                 -- messages a second, kept by whoever calls; 0: no limit
    state       text not null check (state in ('running', 'waiting', 'done')),
    actor       text not null,
    reason      text not null,
    matched     integer not null default 0,
    changed     integer not null default 0,
    held        integer not null default 0,                 -- and left alone: by a live relay, by its key, under way already
    bare        integer not null default 0,                 -- without payload, and not replayed
    started_at  integer not null,
    finished_at integer
) strict;
create index outbox_operation_open on outbox_operation (id) where state <> 'done';

-- Messages that a discard waits for: discarded with the settlement that lets them go.
create table outbox_awaited (
    seq       integer not null,
    operation integer not null,
    until     integer not null,   -- given up then
    primary key (seq, operation)
) strict, without rowid;
create index outbox_awaited_operation on outbox_awaited (operation);

create table outbox.control (
    scope  text not null,
    name   text collate "C" not null,
    reason text,
    actor  text,
    at     timestamptz not null default clock_timestamp(),
    primary key (scope, name),
    constraint control_scope check (scope in ('topic', 'destination')),
    -- Every claim makes a regular expression of the patterns.
    constraint control_name check (scope <> 'topic' or name ~ '^(([A-Za-z0-9_-]+|\*)\.)*([A-Za-z0-9_-]+|\*|>)$')
);
comment on table outbox.control is 'Pauses: a topic pattern or a destination that no relay claims from. Its messages still hold their keys.';

create table outbox.operation (
    id          bigint generated always as identity primary key,
    verb        text not null,
    filter      jsonb not null default '{}',
    cursor      jsonb,
    rate        int,
    state       text not null,
    actor       text,
    reason      text,
    counts      jsonb not null default '{}',
    started_at  timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    constraint operation_state check (state in ('running', 'waiting', 'done')),
    constraint operation_rate check (rate > 0)
);
create index operation_waiting on outbox.operation (id) where state = 'waiting';
create index operation_open on outbox.operation (id) where state <> 'done';
comment on table outbox.operation is 'What operators did: who, why, with what counts.';
comment on column outbox.operation.filter is 'which messages; ages as times, ids also as seqs';
comment on column outbox.operation.cursor is 'how far it has come: everything up to seq of the table has been looked at';
comment on column outbox.operation.rate is 'messages a second, kept by whoever calls';
comment on column outbox.operation.state is 'running: to be continued; waiting: a discard of messages in flight; done';
comment on column outbox.operation.counts is 'matched, changed, held (left alone, by a discard since a live relay holds it), bare (not replayed for want of its payload)';

create table outbox.setting (
    name  text primary key,
    value text not null,
    constraint setting_name check (name in ('payload_max', 'dedup_window', 'notify', 'lock_keys', 'archive', 'home')),
    constraint setting_lock_keys check (name <> 'lock_keys' or value in ('on', 'off')),
    constraint setting_archive check (name <> 'archive' or value in ('off', 'bare', 'full'))
);
comment on table outbox.setting is 'Settings that the SQL functions read: payload_max in bytes, dedup_window as an interval, notify: publish, trigger or off, lock_keys: on or off, archive: off, bare or full, what relays keep of ended messages, and home, which database the outbox was made in.';

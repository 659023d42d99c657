create table outbox.relay (
    id              uuid primary key,
    lease_until     timestamptz not null,
    lease           interval not null,
    beat            bigint not null,
    streaming       boolean not null default false,
    stream          jsonb not null default '{}',
    samples         boolean not null default false,
    host            text not null,
    pid             int not null,
    version         text not null,
    engine          text not null,
    destinations    jsonb not null,
    faults          jsonb not null default '{}',
    counters        jsonb not null default '{}',
    settings_digest text not null default '',
    started_at      timestamptz not null default clock_timestamp(),
    seen_at         timestamptz not null default clock_timestamp()
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

comment on table outbox.relay is 'Live relays. The lease covers all claims of the relay; a claim call removes relays whose lease has lapsed.';
comment on column outbox.relay.beat is 'counts heartbeats';
comment on column outbox.relay.streaming is 'its lanes get new messages from the WAL; one relay does at a time';
comment on column outbox.relay.stream is 'what the WAL engine of the relay does, as of seen_at; empty for the other engine';
comment on column outbox.relay.samples is 'it exports what the relay finds that looks at the outbox for all, so it had better be this one';
comment on column outbox.relay.faults is 'lanes whose destination takes no messages: misconfigured, and the reason; the one without a name is the archive';
comment on column outbox.relay.destinations is 'per lane: topics and unordered (patterns, the first that covers a topic decides), take and free (the same as regular expressions; empty: every topic, null: none)';

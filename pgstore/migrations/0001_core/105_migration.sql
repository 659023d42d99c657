create table outbox.migration (
    version        int primary key,
    name           text not null,
    applied_at     timestamptz not null default clock_timestamp(),
    min_compatible int not null
);
comment on table outbox.migration is 'Applied migrations. min_compatible is the lowest schema version whose programs still work with this one.';

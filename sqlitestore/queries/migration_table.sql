create table if not exists outbox_migration (
    version    integer primary key,
    name       text not null,
    applied_at integer not null
) strict

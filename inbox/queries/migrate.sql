do $$
begin
    -- Not even CREATE … IF NOT EXISTS may be run by several at a time.
    perform pg_advisory_xact_lock(hashtext('outbox inbox'), hashtext('inbox'));
    if to_regnamespace('inbox') is null then
        create schema inbox;
    end if;
    if to_regclass('inbox.mark') is null then
        create table inbox.mark (
            consumer  text collate "C" not null,
            id        text collate "C" not null,
            marked_at timestamptz not null default clock_timestamp(),
            primary key (consumer, id),
            constraint mark_consumer check (octet_length(consumer) between 1 and 255),
            constraint mark_id check (octet_length(id) between 1 and 255)
        ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
        create index mark_age on inbox.mark (marked_at);
        comment on table inbox.mark is 'Messages that consumers have acted on; written in their transactions.';
    end if;
end
$$

-- CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even when there is nothing to do; a schema may be
-- made in advance, for an owner without that right.
do $$
begin
    if to_regnamespace('outbox') is null then
        create schema outbox;
        comment on schema outbox is 'Transactional outbox: messages on their way from this database to their destinations.';
    end if;
end
$$;

-- After a COPY of messages, which can neither notify nor return anything.
select pg_current_xact_id()::text, case when $1::text = 'notify' then pg_notify('outbox', '') end::text

-- One migrator at a time for each schema, by the advisory lock class 28515. It ends with the transaction, so it
-- works behind a transaction-mode pooler.
select pg_advisory_xact_lock(28515, hashtext('outbox'))

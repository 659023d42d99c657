-- Fails outside a transaction block, when sent at top level; conflicts only with changes of the table's definition.
lock table outbox.migration in access share mode

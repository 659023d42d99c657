-- A logical replication slot keeps its database from being dropped. Terminated walsenders have released theirs.
select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1;

-- How much WAL the server keeps for the slot, and how much of it the relay has not confirmed. While the slot is being made,
-- which waits for all transactions that write, it has no positions: then nothing is unconfirmed yet.
select r.slot_name::text, coalesce(r.active_pid, 0), coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.restart_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.confirmed_flush_lsn), 0)::bigint
from pg_replication_slots r
where r.slot_name = (select 'outbox_' || d.oid::text || '_' || 'outbox.message'::regclass::oid::text
                     from pg_database d where d.datname = current_database())

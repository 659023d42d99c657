-- How much WAL the server keeps for the slot, and how much of it the relay has not confirmed.
select r.slot_name::text, coalesce(r.active_pid, 0), pg_wal_lsn_diff(pg_current_wal_lsn(), r.restart_lsn)::bigint,
       pg_wal_lsn_diff(pg_current_wal_lsn(), r.confirmed_flush_lsn)::bigint
from pg_replication_slots r
where r.slot_name = (select 'outbox_' || d.oid::text || '_' || 'outbox.message'::regclass::oid::text
                     from pg_database d where d.datname = current_database())

-- What the WAL engine needs of the server. A slot of the outbox's own is in use when a relay streams.
select current_setting('wal_level'), current_setting('max_replication_slots')::int,
       (select count(*) from pg_replication_slots r
        where r.slot_name <> (select 'outbox_' || d.oid::text || '_' || 'outbox.message'::regclass::oid::text
                              from pg_database d where d.datname = current_database()))::int,
       current_setting('max_wal_senders')::int,
       exists (select from pg_publication_tables t join pg_publication p on p.pubname = t.pubname
               where t.pubname = $1 and p.pubinsert and t.schemaname = 'outbox' and t.tablename = 'message'),
       has_database_privilege(current_database(), 'create')
           and pg_has_role((select c.relowner from pg_class c where c.oid = 'outbox.message'::regclass), 'member')

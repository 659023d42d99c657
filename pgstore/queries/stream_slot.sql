-- What a relay needs to know before it tries to stream. The slot's name is that of this table in this cluster: that a
-- slot of that name exists means that another relay streams.
select s.name, exists (select from pg_replication_slots r where r.slot_name = s.name),
       exists (select from pg_publication_tables t join pg_publication p on p.pubname = t.pubname
               where t.pubname = $1 and p.pubinsert and t.schemaname = 'outbox' and t.tablename = 'message')
from (select 'outbox_' || d.oid::text || '_' || 'outbox.message'::regclass::oid::text as name
      from pg_database d where d.datname = current_database()) s

-- The file, the version of the tables, and since when the message could have been delivered that has waited longest.
select coalesce((select d.file from pragma_database_list d where d.name = 'main'), ''),
       (select max(m.version) from outbox_migration m),
       (select m.published_at from outbox_message m
        where not exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim where l.seq = m.seq and c.relay is not null)
        order by m.seq limit 1),
       (select w.available_at from outbox_waiting w
        where w.available_at <= ?1
          and not exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim where l.seq = w.seq and c.relay is not null)
        order by w.available_at limit 1)

select count(*) from (select 1 from outbox_message m where m.key = ?1 and m.seq > ?2 limit ?3)

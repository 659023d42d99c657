select count(*) from (select 1 from outbox_messages limit 1)

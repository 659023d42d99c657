insert or replace into outbox_awaited (seq, operation, until)
select value, ?2, ?3 from json_each(?1)

delete from outbox_listed where seq in (select value from json_each(?1))

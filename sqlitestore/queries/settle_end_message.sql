delete from outbox_message where seq in (select value from json_each(?1))

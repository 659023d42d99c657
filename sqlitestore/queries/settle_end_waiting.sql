delete from outbox_waiting where seq in (select value from json_each(?1))

delete from outbox_dead where seq in (select value from json_each(?1))

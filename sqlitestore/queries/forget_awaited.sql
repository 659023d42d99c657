delete from outbox_awaited where seq in (select value from json_each(?1))

update outbox_listed set claim = ?2 where seq in (select value from json_each(?1))

update outbox_waiting set available_at = ?2 where seq in (select value from json_each(?1)) and available_at > ?2

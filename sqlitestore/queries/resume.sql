delete from outbox_control where scope = ?1 and name = ?2

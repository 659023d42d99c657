update outbox_operation set state = 'waiting' where id = ?1

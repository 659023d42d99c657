update outbox_operation set state = 'done', finished_at = ?2 where id = ?1

update outbox_operation set held = held - ?2 where id = ?1

delete from outbox_awaited where operation = ?1

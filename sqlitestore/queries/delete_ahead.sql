delete from outbox_relay where id = ?1 and beat = ?2

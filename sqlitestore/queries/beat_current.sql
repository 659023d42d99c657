select r.beat from outbox_relay r where r.id = ?1

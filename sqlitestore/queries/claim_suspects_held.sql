select count(*) from outbox_claim where relay = ?1 and lapses >= ?2

select (select count(*) from outbox_message) + (select count(*) from outbox_waiting) + (select count(*) from outbox_dead)
    + (select count(*) from outbox_claim)

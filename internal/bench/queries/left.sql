select (select count(*) from outbox.message) + (select count(*) from outbox.waiting) + (select count(*) from outbox.dead)

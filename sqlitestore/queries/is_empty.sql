select exists (select 1 from outbox_message) + exists (select 1 from outbox_waiting) + exists (select 1 from outbox_dead)

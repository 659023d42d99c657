select now from outbox_clock

select outbox.set_archive($1)

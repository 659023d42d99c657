lock table outbox.message, outbox.waiting, outbox.dead in access exclusive mode

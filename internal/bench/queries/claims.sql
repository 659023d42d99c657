select count(*) from outbox.claim

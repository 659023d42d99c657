-- Numbers begin at 1 again.
truncate outbox.message, outbox.waiting, outbox.dead, outbox.claim, outbox.relay, outbox.dedup;
alter sequence outbox.seq restart

-- Numbers begin at 1 again, so that message n of a backlog has seq n.
truncate outbox.message, outbox.waiting, outbox.dead, outbox.claim, outbox.relay, outbox.dedup;
alter sequence outbox.seq restart

delete from outbox_message;
delete from outbox_waiting;
delete from outbox_dead;
delete from outbox_listed;
delete from outbox_claim;
delete from outbox_relay

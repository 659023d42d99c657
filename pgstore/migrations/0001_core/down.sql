drop schema outbox cascade;

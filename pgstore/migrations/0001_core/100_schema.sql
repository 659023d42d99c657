create schema if not exists outbox;
comment on schema outbox is 'Transactional outbox: messages on their way from this database to their destinations.';

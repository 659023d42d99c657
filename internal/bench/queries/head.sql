-- The head of a key, which is retried tomorrow: its followers wait for it.
insert into outbox.waiting (id, topic, key, payload, attempts, holds, available_at)
values (gen_random_uuid(), $1, $2, int8send(0), 1, true, clock_timestamp() + interval '1 day')

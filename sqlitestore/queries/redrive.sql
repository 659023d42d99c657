-- Their keys are held from this moment on. The generation tells brokers that deduplicate by id that this is not the
-- message they have seen. One that died of a crash is a suspect still.
insert into outbox_waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, published_at,
    generation, lapses, holds, destination, available_at, failed_at, error_class, last_error)
select d.seq, d.id, d.topic, d.key, d.payload, d.headers, d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at, d.published_at,
    d.generation + 1, d.lapses, 1, case when not ?3 then d.destination end, ?2, d.failed_at, d.error_class, d.last_error
from outbox_dead d
where d.seq in (select value from json_each(?1))

insert into outbox_dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, published_at,
    generation, attempts, lapses, holds, destination, first_failed_at, failed_at, error_class, last_error, died_at)
select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl, w.expires_at, w.published_at,
    w.generation, e.value ->> 'attempts', e.value ->> 'lapses', w.key is not null and e.value ->> 'holds', w.destination,
    coalesce(w.first_failed_at, ?2), ?2, e.value ->> 'class', e.value ->> 'text', ?2
from json_each(?1) e
join outbox_waiting w on w.seq = e.value ->> 'seq'

insert into outbox_dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, published_at,
    attempts, lapses, holds, first_failed_at, failed_at, error_class, last_error, died_at)
select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at, m.published_at,
    e.value ->> 'attempts', e.value ->> 'lapses', m.key is not null and e.value ->> 'holds', ?2, ?2, e.value ->> 'class',
    e.value ->> 'text', ?2
from json_each(?1) e
join outbox_message m on m.seq = e.value ->> 'seq'

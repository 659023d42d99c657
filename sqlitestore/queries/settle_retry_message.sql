-- Not before now, also when its life is over: lanes have looked at what was due before.
insert into outbox_waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, published_at,
    attempts, lapses, holds, available_at, first_failed_at, failed_at, error_class, last_error)
select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at, m.published_at,
    e.value ->> 'attempts', e.value ->> 'lapses', 1,
    max(min(?2 + (e.value ->> 'delay'), coalesce(m.expires_at, ?2 + (e.value ->> 'delay'))), ?2),
    ?2, ?2, e.value ->> 'class', e.value ->> 'text'
from json_each(?1) e
join outbox_message m on m.seq = e.value ->> 'seq'

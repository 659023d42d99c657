select m.seq, m.id, m.topic, coalesce(m.key, ''), m.payload, m.headers, coalesce(m.dedup_key, ''), m.max_attempts, coalesce(m.broker_ttl, 0),
       m.expires_at, m.published_at, 0, 0
from outbox_message m
where m.seq in (select value from json_each(?1))
union all
select w.seq, w.id, w.topic, coalesce(w.key, ''), w.payload, w.headers, coalesce(w.dedup_key, ''), w.max_attempts, coalesce(w.broker_ttl, 0),
       w.expires_at, w.published_at, w.attempts, w.generation
from outbox_waiting w
where w.seq in (select value from json_each(?1))
order by 1

-- Messages that have ended wait again, for one destination only, due now and without an end of their life. With a key they
-- hold it in that destination from this moment on: what is replayed of it goes before what is younger.
insert into outbox_waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, published_at, generation, holds,
    destination, available_at)
select a.seq, a.id, a.topic, a.key, a.payload, a.headers, a.dedup_key, a.max_attempts, a.broker_ttl, a.published_at, a.generation + 1, 1,
    ?2, ?3
from json_each(?1) e
cross join outbox_archive a on a.seq = e.value ->> 'seq' and a.generation = e.value ->> 'generation'

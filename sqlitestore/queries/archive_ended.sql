-- Keeps messages that end, wherever they are, with what becomes of them. The rows themselves are deleted after it.
insert into outbox_archive (seq, generation, id, topic, key, outcome, ended_at, attempts, destination, detail, actor, dedup_key, max_attempts,
    broker_ttl, expires_at, published_at, headers, payload)
select m.seq, 0, m.id, m.topic, m.key, e.value ->> 'outcome', ?2, e.value ->> 'outcome' in ('delivered', 'dropped'), e.value ->> 'destination',
       e.value ->> 'detail', e.value ->> 'actor', m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at, m.published_at, m.headers,
       case when ?3 then m.payload end
from json_each(?1) e
cross join outbox_message m on m.seq = e.value ->> 'seq'
union all
select w.seq, w.generation, w.id, w.topic, w.key, e.value ->> 'outcome', ?2, w.attempts + (e.value ->> 'outcome' in ('delivered', 'dropped')),
       coalesce(e.value ->> 'destination', w.destination), e.value ->> 'detail', e.value ->> 'actor', w.dedup_key, w.max_attempts, w.broker_ttl,
       w.expires_at, w.published_at, w.headers, case when ?3 then w.payload end
from json_each(?1) e
cross join outbox_waiting w on w.seq = e.value ->> 'seq'
union all
select d.seq, d.generation, d.id, d.topic, d.key, e.value ->> 'outcome', ?2, d.attempts, coalesce(e.value ->> 'destination', d.destination),
       e.value ->> 'detail', e.value ->> 'actor', d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at, d.published_at, d.headers,
       case when ?3 then d.payload end
from json_each(?1) e
cross join outbox_dead d on d.seq = e.value ->> 'seq'

-- $1 messages of topic $2 and key $3 that must stay: their number is 0.
insert into outbox.message (id, topic, key, payload, headers)
select gen_random_uuid(), $2, nullif($3, ''), int8send(0) || decode(repeat(md5(n::text), 32), 'hex'),
       '{"content-type": "application/json"}'
from generate_series(1, $1::bigint) n

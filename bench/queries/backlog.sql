-- The same rows each time, 512 bytes of payload each; the order of seq is that of n.
insert into outbox.message (id, topic, key, payload, headers)
select md5(n::text)::uuid, 'orders.created', case when $2::bigint > 0 then 'key-' || n % $2::bigint end,
       decode(repeat(md5(n::text), 32), 'hex'), '{"content-type": "application/json"}'
from generate_series(1, $1::bigint) n

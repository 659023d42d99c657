-- Messages $1 to $2 with $3 keys and payloads of $4 bytes, in the order of their numbers.
insert into outbox.message (id, topic, key, payload, headers)
select gen_random_uuid(), $5, case when $3::bigint > 0 then 'key-' || n % $3::bigint end,
       int8send(n) || decode(rpad(md5(n::text), 2 * ($4::int - 8), md5(n::text)), 'hex'), '{"content-type": "application/json"}'
from generate_series($1::bigint, $2::bigint) n
order by n

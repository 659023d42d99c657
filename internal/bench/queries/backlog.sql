-- $1 messages with $2 keys and payloads of $3 bytes, of topic $7, and after each of the first $4 one of topic $5 and key
-- $6 that must stay. Payloads are slices of one block, so that nothing in them can be compressed. The order of seq is
-- that of n.
with block as materialized (
    select decode(string_agg(md5(i::text), ''), 'hex') as bytes, 65536 as length
    from generate_series(1, 4096) i
)
insert into outbox.message (id, topic, key, payload, headers)
select md5(n::text || ' ' || extra)::uuid,
       case when extra then $5 else $7 end,
       case when extra then nullif($6, '') when $2::bigint > 0 then 'key-' || n % $2::bigint end,
       int8send(case when extra then 0 else n end)
           || substring(bytes from (1 + n * 37 % greatest(1, length - $3::int))::int for $3::int - 8),
       '{"content-type": "application/json"}'
from generate_series(1, $1::bigint) n, lateral (values (false), (true)) e (extra), block
where not extra or n <= $4::bigint
order by n, extra

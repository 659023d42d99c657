-- Message n has its number in the first bytes of the payload, and key n modulo the keys.
with recursive s (n) as (select 1 union all select n + 1 from s where n < ?1)
insert into outbox_message (seq, id, topic, key, payload, headers, published_at)
select (select seq from outbox_sequence) + n, printf('%08x-0000-7000-8000-%012x', n, n), ?4, case when ?2 > 0 then 'key ' || (n % ?2) end,
       cast(unhex(printf('%016x', n)) || randomblob(?3 - 8) as blob), '{"content-type":"application/json"}', (select now from outbox_clock)
from s;
update outbox_sequence set seq = seq + ?1

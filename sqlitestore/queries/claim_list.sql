insert or replace into outbox_listed (seq, claim, key)
select e.value ->> 'seq', ?2, e.value ->> 'key'
from json_each(?1) e

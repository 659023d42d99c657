-- What each outcome finds: whether the claim is still the relay's, whether it lists the message, whether that has ended.
select e.key, c.id is not null, coalesce(l.claim = c.id, 0),
       not exists (select 1 from outbox_message m where m.seq = e.value ->> 'seq')
       and not exists (select 1 from outbox_waiting w where w.seq = e.value ->> 'seq'),
       coalesce(l.key, ''), coalesce(c.destination, '')
from json_each(?1) e
left join outbox_claim c on c.id = e.value ->> 'claim' and c.relay = e.value ->> 'relay' and c.token = e.value ->> 'token'
left join outbox_listed l on l.seq = e.value ->> 'seq'
order by e.key

select r.id, r.host, r.pid, r.seen_at, r.lease_until,
       (select count(*) from outbox_claim c join outbox_listed l on l.claim = c.id where c.relay = r.id)
from outbox_relay r
where r.id <> ?1
order by r.seen_at

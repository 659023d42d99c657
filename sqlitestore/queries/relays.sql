select r.id, r.host, r.pid, r.version, r.engine, r.settings, r.started_at, r.seen_at, r.lease_until, r.lanes, r.counters,
       (select json_group_object(c.destination, c.n)
        from (select c.destination, count(*) as n from outbox_claim c join outbox_listed l on l.claim = c.id
              where c.relay = r.id group by c.destination) c)
from outbox_relay r
order by r.started_at, r.id

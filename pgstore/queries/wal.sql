-- Relays with the WAL engine, and the slot of the one that streams.
select r.id, r.host, r.pid, r.lease_until > clock_timestamp(), r.streaming,
       greatest((extract(epoch from clock_timestamp() - r.seen_at) * 1000000)::bigint, 0), -- the clock may have been put back
       (extract(epoch from r.lease_until - clock_timestamp()) * 1000000)::bigint, r.stream::text
from outbox.relay r
where r.engine = 'wal'
order by r.streaming desc, r.started_at, r.id
limit 1000

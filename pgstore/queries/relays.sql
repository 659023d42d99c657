-- One that was killed goes on to say that it streams: it does if the slot of its connection is there.
select r.id, r.host, r.pid, r.version, r.engine,
       r.streaming and exists (select from pg_replication_slots s where s.active_pid = (r.stream ->> 'server_pid')::int),
       case when r.engine = 'wal' then coalesce(r.stream ->> 'problem', '') else '' end, r.settings_digest, r.lease_until > clock_timestamp(), r.started_at,
       greatest((extract(epoch from clock_timestamp() - r.seen_at) * 1000000)::bigint, 0), -- the clock may have been put back
       (extract(epoch from r.lease_until - clock_timestamp()) * 1000000)::bigint,
       r.destinations::text, r.faults::text, r.counters::text,
       coalesce((select jsonb_object_agg(c.destination, c.n) from (
           select c.destination, sum(cardinality(c.seqs)) as n from outbox.claim c where c.relay = r.id group by 1
       ) c), '{}')::text
from outbox.relay r
order by r.started_at, r.id
limit 1000

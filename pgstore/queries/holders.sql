-- Who holds messages, for the line a relay logs when it starts.
select r.id, r.host, r.pid, sum(cardinality(c.seqs)),
       greatest((extract(epoch from clock_timestamp() - r.seen_at) * 1000000)::bigint, 0), -- the clock may have been put back
       (extract(epoch from r.lease_until - clock_timestamp()) * 1000000)::bigint
from outbox.relay r join outbox.claim c on c.relay = r.id
where r.id <> $1
group by r.id
order by r.seen_at

-- Which relay looks at the outbox for all: one that exports what it sees before one that does not, the oldest first.
select r.id
from outbox.relay r
where r.lease_until > clock_timestamp()
order by r.samples desc, r.started_at, r.id
limit 1

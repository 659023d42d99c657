-- How a message has ended the last time, if it is kept.
select a.topic, a.outcome, coalesce(a.destination, ''), coalesce(a.actor, ''), coalesce(a.detail, ''), a.ended_at
from outbox.archive a
where a.id = $1
order by a.generation desc, a.ended_at desc
limit 1

-- How a message has ended the last time, if it is kept.
select a.topic, a.outcome, coalesce(a.destination, ''), coalesce(a.actor, ''), coalesce(a.detail, ''), a.ended_at
from outbox_archive a
where a.id = ?1
order by a.generation desc
limit 1

select c.scope, c.name, coalesce(c.actor, ''), coalesce(c.reason, ''), c.at
from outbox.control c
order by c.scope desc, c.name
limit 1000

-- What operators did: first what has not come to its end, then the rest, the newest first.
select o.id, o.verb, o.state, o.filter, o.actor, o.reason, o.rate, o.matched, o.changed, o.held, o.bare, o.started_at, coalesce(o.finished_at, 0)
from outbox_operation o
where o.id in (select x.id from outbox_operation x where x.state <> 'done' order by x.id desc limit ?1)
   or o.id in (select y.id from outbox_operation y order by y.id desc limit ?1)
order by o.state = 'done', o.id desc
limit ?1

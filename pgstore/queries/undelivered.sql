select t.state, t.n
from (
    select 'ready' as state, count(*) as n from outbox.message
    union all select 'waiting', count(*) from outbox.waiting
    union all select 'dead', count(*) from outbox.dead
) t
where t.n > 0

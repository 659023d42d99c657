-- The dead messages that were published last, by topic and error as they are; what is alike is told by the program.
select g.topic, g.class, g.text, g.messages, g.holding, g.first, g.last, (select x.id from outbox_dead x where x.seq = g.youngest),
       (select count(*) from (select 1 from outbox_dead limit 100001))
from (
    select d.topic, coalesce(d.error_class, '') as class, coalesce(substr(d.last_error, 1, 300), '') as text, count(*) as messages,
           sum(d.holds) as holding, min(d.died_at) as first, max(d.died_at) as last, max(d.seq) as youngest
    from (select x.seq, x.topic, x.error_class, x.last_error, x.holds, x.died_at from outbox_dead x order by x.seq desc limit 100000) d
    group by 1, 2, 3
) g

-- The dead messages that were published last, by topic and error as they are; what is alike is told by the program.
select d.topic, coalesce(d.error_class, ''), left(d.last_error, 300), count(*), count(*) filter (where d.holds), min(d.died_at), max(d.died_at),
       (array_agg(d.id order by d.seq desc))[1], (select count(*) from (select from outbox.dead limit 100001) n)
from (select x.seq, x.id, x.topic, x.error_class, x.last_error, x.holds, x.died_at from outbox.dead x order by x.seq desc limit 100000) d
group by 1, 2, 3

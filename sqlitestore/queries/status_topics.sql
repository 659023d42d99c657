-- The topics at both ends of the ready messages. What no relay delivers stays at the front and gathers there.
select t.topic, count(*), (select count(*) = 10000 from (select 1 from outbox_message limit 10000))
from (
    select * from (select m.seq, m.topic from outbox_message m order by m.seq limit 10000)
    union
    select * from (select m.seq, m.topic from outbox_message m order by m.seq desc limit 10000)
) t
group by t.topic
order by 2 desc, 1
limit 1000

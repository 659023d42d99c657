-- All topics of messages that have not ended, by one probe of an index for each.
with recursive
    m (topic) as (
        select min(topic) from outbox_message
        union all
        select (select min(x.topic) from outbox_message x where x.topic > m.topic) from m where m.topic is not null
    ),
    w (topic) as (
        select min(topic) from outbox_waiting
        union all
        select (select min(x.topic) from outbox_waiting x where x.topic > w.topic) from w where w.topic is not null
    ),
    d (topic) as (
        select min(topic) from outbox_dead
        union all
        select (select min(x.topic) from outbox_dead x where x.topic > d.topic) from d where d.topic is not null
    )
select topic from m where topic is not null
union
select topic from w where topic is not null
union
select topic from d where topic is not null

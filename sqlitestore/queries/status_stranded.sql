-- The destinations and topics of messages that are bound to a destination, by one probe of an index for each.
with recursive bound (destination, topic) as (
    select * from (select w.destination, w.topic from outbox_waiting w
                   where w.destination > '' order by w.destination, w.topic limit 1)
    union all
    select (select w.destination from outbox_waiting w
            where w.destination is not null and (w.destination, w.topic) > (b.destination, b.topic) order by w.destination, w.topic limit 1),
           (select w.topic from outbox_waiting w
            where w.destination is not null and (w.destination, w.topic) > (b.destination, b.topic) order by w.destination, w.topic limit 1)
    from bound b
    where b.destination is not null
    limit 1001
)
select destination, topic from bound where destination is not null

delete from inbox.mark
where ctid = any (array(
    select m.ctid from inbox.mark m
    where m.marked_at < clock_timestamp() - $1::text::interval
    order by m.marked_at
    limit $2::text::bigint
    for update skip locked))

-- How many dead messages of a key do not hold it, counted up to one above $2.
select count(*) from (select from outbox.dead d where d.key = $1 and not d.holds limit $2::bigint + 1) d

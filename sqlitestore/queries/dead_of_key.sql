-- How many dead messages of a key do not hold it, counted up to a bound.
select count(*) from (select 1 from outbox_dead d where d.key = ?1 and not d.holds limit ?2)

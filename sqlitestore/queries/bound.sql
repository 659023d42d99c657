-- How many messages of a topic are bound to a destination, counted up to a bound.
select count(*) from (select 1 from outbox_waiting w where w.destination = ?1 and w.topic = ?2 limit ?3)

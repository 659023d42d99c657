-- The sessions of a relay: what it had sent before it was killed is still carried out while there are any.
select count(*) from pg_stat_activity where application_name = $1

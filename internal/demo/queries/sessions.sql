-- The sessions of a killed relay: what it had sent may be carried out while there are any.
select count(*) from pg_stat_activity where application_name = $1

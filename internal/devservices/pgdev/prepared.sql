-- Transactions prepared in a database keep it from being dropped, force or not.
select gid from pg_prepared_xacts where database = $1;

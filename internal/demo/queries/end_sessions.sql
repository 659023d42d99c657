-- What a killed relay had sent is not carried out.
select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1

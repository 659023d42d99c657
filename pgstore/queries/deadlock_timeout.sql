-- In milliseconds.
select s.setting::int from pg_catalog.pg_settings s where s.name = 'deadlock_timeout'

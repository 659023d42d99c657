-- Of all tables, so that those of others count as well.
select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables

-- Whether this role sees what the sessions of other roles do.
select pg_has_role(current_user, 'pg_read_all_stats', 'usage'), current_user::text

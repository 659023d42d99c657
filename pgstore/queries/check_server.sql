select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
       current_user::text, pg_backend_pid()

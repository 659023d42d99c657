select coalesce(array_agg(nspname::text order by nspname), '{}') from pg_namespace where starts_with(nspname, $1)

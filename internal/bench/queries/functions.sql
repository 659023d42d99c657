select coalesce(sum(calls) filter (where funcname = 'claim'), 0)::bigint,
       coalesce(sum(total_time) filter (where funcname = 'claim'), 0)::float8,
       coalesce(sum(calls) filter (where funcname in ('settle', 'settle_delivered')), 0)::bigint,
       coalesce(sum(total_time) filter (where funcname in ('settle', 'settle_delivered')), 0)::float8
from pg_stat_user_functions
where schemaname = 'outbox'

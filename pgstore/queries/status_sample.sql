-- Two of these make the rates: every message takes a number, and none leaves the ready ones but by a delete.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint, case when s.is_called then s.last_value else 0 end,
       pg_stat_get_tuples_deleted('outbox.message'::regclass)
from outbox.seq s

-- Wakes relays if $2 says so or one of these transactions has ended, and returns those that still run. Whether it
-- committed does not matter: waking for nothing is cheap. What is not running here (rolled back by a failover) stays
-- invisible and is forgotten by the caller.
with now as materialized (
    select pg_current_snapshot() as snapshot
), asked as materialized (
    select x.id, pg_visible_in_snapshot(x.id, n.snapshot) as ended
    from now n, unnest($1::text[]::xid8[]) x(id)
), told as materialized (
    select pg_notify('outbox', '') where $2 or exists (select from asked a where a.ended)
)
select coalesce((select array_agg(a.id::text) from asked a where not a.ended), '{}'), exists (select from told)

-- What operators did: first what has not come to its end, then the rest, the newest first.
create function outbox.operations(only_id bigint default null, max_rows int default 100)
returns table (id bigint, verb text, state text, filter jsonb, actor text, reason text, rate int, counts jsonb,
    started_at timestamptz, finished_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select o.id, o.verb, o.state, o.filter - 'seqs', o.actor, o.reason, o.rate, o.counts, o.started_at, o.finished_at
    from (
        (select * from outbox.operation o where o.state <> 'done' and (only_id is null or o.id = only_id) order by o.id desc limit max_rows)
        union all
        (select * from outbox.operation o where o.state = 'done' and (only_id is null or o.id = only_id) order by o.id desc limit max_rows)
    ) o
    order by o.state = 'done', o.id desc
    limit max_rows
$$;
comment on function outbox.operations is 'What operators did and are doing, what is not done first.';
revoke execute on function outbox.operations from public;

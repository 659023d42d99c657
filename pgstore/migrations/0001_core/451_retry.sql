create function outbox.retry(
    ids uuid[] default null, topic text default null, key text default null,
    error_class text default null, error_text text default null,
    older_than interval default null, newer_than interval default null, everything boolean default false,
    max_messages bigint default null, actor text default null, reason text default null,
    dry_run boolean default false, rate int default null, batch int default 500, operation bigint default null,
    destination text default null, by_route boolean default false,
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    filter jsonb;
begin
    if operation is null then
        filter := outbox.change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages,
            null, destination, by_route);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from outbox.change('retry', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;
comment on function outbox.retry is 'Messages that wait for another attempt are due now; their attempts stay. A scheduled one keeps its time unless it is named by its id. destination: those that a replay has bound to it; by_route ends the binding of all of them, due or not, but for those that a live relay holds. One batch: while more is true, call it again with operation => operation_id.';
revoke execute on function outbox.retry from public;

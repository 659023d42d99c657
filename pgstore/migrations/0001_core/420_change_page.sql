-- The next messages of one table that a filter means, by seq from a cursor on. Outside the claim lock: it reads at
-- most p_rows rows and finds candidates; what is done with them looks again. Age counts from a message's death when
-- it is dead, from its end when it has ended, else from its publishing. A message is in the archive once per generation. (No second ORDER BY: it would read the whole page for the first few.)
create function outbox.change_page(
    p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows int, p_limit int,
    out seqs    bigint[],
    out reached bigint -- null: the end of the table
)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_failed constant boolean := p_table in ('waiting', 'dead');
begin
    execute format($query$
        with page as materialized (
            select t.* from (
                select t.seq, t.topic, t.key, %s as class, %s as text, %s as at, %s as outcome, %s as destination, %s as open
                from %s t
                where t.seq > $1 and t.seq <= $2 %s %s %s
                order by %s t.seq
                fetch first $3 rows with ties
            ) t
        ), found as materialized (
            select p.seq
            from page p
            where p.open
              and ($5 is null or p.topic ~ $5)
              and ($6 is null or p.key = $6)
              and ($7 is null or p.class = $7)
              and ($8 is null or position($8 in p.text) > 0)
              and ($9 is null or p.at <= $9)
              and ($10 is null or p.at > $10)
              and ($12 is null or p.outcome = any ($12))
              and ($13 is null or p.destination = $13)
            limit $4
        )
        select (select coalesce(array_agg(distinct f.seq), '{}') from found f),
               case when (select count(*) from found) = $4 then (select max(f.seq) from found f)
                    when (select count(*) from page) >= $3 then (select max(p.seq) from page p) end$query$,
        case when v_failed then 't.error_class' else 'null::text' end,
        case when v_failed then 't.last_error' when p_table = 'archive' then 't.detail' else 'null::text' end,
        case p_table when 'dead' then 't.died_at' when 'archive' then 't.ended_at' else 't.published_at' end,
        case when p_table = 'archive' then 't.outcome' else 'null::text' end,
        case when v_failed then 't.destination' else 'null::text' end,
        -- A scheduled message keeps its time unless it is named. One that gets another destination may be due long since.
        case when p_verb = 'retry' and not p_filter ? 'by_route' then 't.available_at > clock_timestamp() and (t.attempts > 0 or $11 is not null)' else 'true' end,
        case p_table when 'message' then 'outbox.message' when 'waiting' then 'outbox.waiting' when 'dead' then 'outbox.dead' when 'archive' then 'outbox.archive' end,
        case when p_filter ? 'seqs' then 'and t.seq = any ($11)' end,
        -- Leaves partitions out.
        case when p_table = 'archive' then concat(case when p_filter ? 'before' then 'and t.ended_at <= $9 ' end,
                                                  case when p_filter ? 'after' then 'and t.ended_at > $10' end) end,
        case when p_filter ? 'key' and p_table = 'message' then 'and t.key between $6 and $6' end,
        -- In the order of message_key; with an equality the planner may walk the primary key in search of the key.
        case when p_filter ? 'key' and p_table = 'message' then 't.key,' end)
    into seqs, reached
    using p_after, p_until, p_rows, p_limit,
        outbox.topics_regexp(case when p_filter ? 'topic'
            then jsonb_build_array(jsonb_build_object('in', true, 'pattern', p_filter ->> 'topic')) end),
        p_filter ->> 'key', p_filter ->> 'class', p_filter ->> 'text',
        (p_filter ->> 'before')::timestamptz, (p_filter ->> 'after')::timestamptz,
        case when p_filter ? 'seqs' then array(select s.value::bigint from jsonb_array_elements_text(p_filter -> 'seqs') s(value)) end,
        case when p_table = 'archive' then array(select s.value from jsonb_array_elements_text(p_filter -> 'states') s(value)) end,
        case when v_failed then p_filter ->> 'destination' end;
end
$$;
comment on function outbox.change_page is 'Internal: the next messages that an operation means.';
revoke execute on function outbox.change_page from public;

-- One page of what lies below a lane's floor and nobody lists: messages whose transaction committed after the
-- window had passed, and keys whose continuation was lost with a relay. Outside the claim lock: it only finds
-- candidates, and claim decides.
create function outbox.sweep(
    p_relay uuid, p_destination text, p_stop text, p_from bigint, p_to bigint, p_rows int,
    -- p_stop: topics that the lane's last claim left alone
    out reached bigint,   -- null: the end
    out seqs    bigint[], -- without a key
    out keys    text[]
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_take text;
    v_free text;
begin
    perform outbox.plan_settings();
    select r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_take, v_free
    from outbox.relay r where r.id = p_relay;
    with page as materialized (
        select p.seq, p.key, p.mine and p.seq not in (select l.seq from outbox.listed(0) l(seq)) as found
        from (
            select m.seq, case when m.topic ~ v_free then null else m.key end as key, m.topic ~ v_take and (p_stop is null or m.topic !~ p_stop) as mine
            from outbox.message m
            where m.seq >= p_from and m.seq < p_to
            order by m.seq
            limit p_rows
        ) p
        limit 10000
    )
    select case when count(*) = p_rows then max(p.seq) + 1 end,
           array_agg(p.seq) filter (where p.found and p.key is null),
           array_agg(distinct p.key) filter (where p.found and p.key is not null)
    into reached, seqs, keys
    from page p;
end
$$;

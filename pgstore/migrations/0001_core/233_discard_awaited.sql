-- The other half of a discard that waits: removes messages that a settlement has just let go of, if an operator
-- waits for them. Part of the settlement, so nobody can claim them in between. With the owner's rights: relays may
-- write operations only this way. The operation's row is the last that is locked, here and by operators.
create function outbox.discard_awaited(p_seqs bigint[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    o      record;
    v_gone bigint[];
begin
    for o in
        select x.id, array(select s.value::bigint from jsonb_array_elements_text(x.cursor -> 'held') s(value)) as seqs
        from outbox.operation x
        where x.state = 'waiting' and (x.cursor ->> 'wait_until')::timestamptz > clock_timestamp()
        order by x.id
    loop
        with m as (
            delete from outbox.message m where m.seq = any (p_seqs) and m.seq = any (o.seqs) returning m.seq
        ), w as (
            delete from outbox.waiting w where w.seq = any (p_seqs) and w.seq = any (o.seqs) returning w.seq
        ), d as (
            delete from outbox.dead d where d.seq = any (p_seqs) and d.seq = any (o.seqs) returning d.seq
        )
        select array_agg(g.seq) into v_gone from (select seq from m union all select seq from w union all select seq from d) g;
        if v_gone is not null then
            update outbox.operation x
            set counts = x.counts || jsonb_build_object('changed', (x.counts ->> 'changed')::bigint + cardinality(v_gone))
            where x.id = o.id;
        end if;
    end loop;
end
$$;
comment on function outbox.discard_awaited(bigint[]) is 'Internal: discards what operators wait for, of messages that are being settled.';

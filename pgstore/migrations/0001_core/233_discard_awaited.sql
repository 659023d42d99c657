-- The other half of a discard that waits: removes messages that a settlement has just let go of, if an operator
-- waits for them. Part of the settlement, so nobody can claim them in between. With the owner's rights: relays may
-- write operations only this way. The operation's row is the last that is locked, here and by operators.
create function outbox.discard_awaited(p_seqs bigint[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    o      record;
    v_gone bigint;
begin
    for o in
        select x.id, x.actor, x.reason, array(select s.value::bigint from jsonb_array_elements_text(x.cursor -> 'held') s(value)) as seqs
        from outbox.operation x
        where x.state = 'waiting' and (x.cursor ->> 'wait_until')::timestamptz > clock_timestamp()
        order by x.id
    loop
        v_gone := outbox.end_discarded(array(select u.seq from unnest(p_seqs) u(seq) where u.seq = any (o.seqs)), o.actor, o.reason);
        if v_gone > 0 then
            update outbox.operation x
            set counts = x.counts || jsonb_build_object('changed', (x.counts ->> 'changed')::bigint + v_gone)
            where x.id = o.id;
        end if;
    end loop;
end
$$;
comment on function outbox.discard_awaited(bigint[]) is 'Internal: discards what operators wait for, of messages that are being settled.';

-- Ends messages for good, ready, waiting or dead, and keeps them if relays do.
create function outbox.end_discarded(p_seqs bigint[], p_actor text, p_reason text) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_mode    constant text := (select s.value from outbox.setting s where s.name = 'archive');
    v_changed bigint := 0;
    v_n       bigint;
begin
    if p_seqs = '{}' then
        return 0;
    elsif v_mode in ('bare', 'full') then
        return (select a.ended from outbox.archive_rows(p_seqs, array_fill('discarded'::text, array[cardinality(p_seqs)]),
            array_fill(p_reason, array[cardinality(p_seqs)]), null, p_actor, v_mode = 'full', clock_timestamp()) a);
    end if;
    delete from outbox.message m where m.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    v_changed := v_changed + v_n;
    delete from outbox.waiting w where w.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    v_changed := v_changed + v_n;
    delete from outbox.dead d where d.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    return v_changed + v_n;
end
$$;
comment on function outbox.end_discarded(bigint[], text, text) is 'Internal: removes messages that nobody may settle any more.';
revoke execute on function outbox.end_discarded(bigint[], text, text) from public;

-- Settles claims of which everything that is left was delivered: no list is sent. Returns the ids that were
-- still the relay's; the others are fenced or were settled before. The tokens tell a claim from one that got its
-- id after a crash of the database had undone it: claims commit asynchronously, and so do the ids that they draw.
create function outbox.settle_delivered(p_relay uuid, p_claims bigint[], p_tokens uuid[]) returns bigint[]
language plpgsql volatile
as $$
declare
    v_ids  bigint[];
    v_seqs bigint[];
    v_gone int;
begin
    perform outbox.plan_settings();
    with settled as (
        delete from outbox.claim c
        where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay
        returning c.id, c.seqs
    )
    select array_agg(distinct s.id), array_agg(u.seq) into v_ids, v_seqs
    from settled s, unnest(s.seqs) u(seq);
    delete from outbox.message m where m.seq = any (v_seqs);
    get diagnostics v_gone = row_count;
    if v_gone < cardinality(v_seqs) then
        delete from outbox.waiting w where w.seq = any (v_seqs);
    end if;
    return v_ids;
end
$$;

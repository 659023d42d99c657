-- Settles claims of which everything that is left was delivered: no list is sent. Returns the ids that were
-- still the relay's; the others are fenced or were settled before. The tokens tell a claim from one that got its
-- id after a crash of the database had undone it: claims commit asynchronously, and so do the ids that they draw.
create function outbox.settle_delivered(
    p_relay uuid, p_claims bigint[], p_tokens uuid[],
    p_keep boolean,     -- null: what has ended is not kept; whether with its payload
    out ids     bigint[],
    out refused text    -- null: the archive took it
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_seqs         bigint[];
    v_destinations text[];
    v_gone         int;
begin
    perform outbox.plan_settings();
    with settled as (
        delete from outbox.claim c
        where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay
        returning c.id, c.seqs, c.destination
    )
    select array_agg(distinct s.id), array_agg(u.seq), array_agg(s.destination) filter (where p_keep is not null)
    into ids, v_seqs, v_destinations
    from settled s, unnest(s.seqs) u(seq);
    if p_keep is null then
        delete from outbox.message m where m.seq = any (v_seqs);
        get diagnostics v_gone = row_count;
        if v_gone < cardinality(v_seqs) then
            delete from outbox.waiting w where w.seq = any (v_seqs);
        end if;
    elsif v_seqs is not null then
        refused := (select a.refused from outbox.archive_rows(v_seqs, array_fill('delivered'::text, array[cardinality(v_seqs)]),
            null, v_destinations, null, p_keep, clock_timestamp()) a);
    end if;
end
$$;

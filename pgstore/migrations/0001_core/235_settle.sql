-- Settles single messages of claims: one element per message in each array. Returns per element whether it
-- took effect now, had before, or was refused, and the keys that were released, with their lane: whoever
-- skipped a key continues it.
--
-- The fence is the row lock on the claim, taken under its id, its token and its relay: a takeover skips locked claims,
-- and once it has changed the owner nothing is found here. FOR KEY SHARE, so that several parts of one claim
-- settle at the same time; the claim row is changed by expressions on its own columns for the same reason.
create function outbox.settle(
    p_relay    uuid,
    p_claims   bigint[],
    p_tokens   uuid[],
    p_seqs     bigint[],
    p_kinds    text[],       -- delivered dropped expired retried died parked unlisted given_back
    p_attempts int[],
    p_delays   bigint[],     -- microseconds
    p_classes  text[],
    p_texts    text[],
    p_notify   boolean,
    p_keep     boolean,      -- null: what has ended is not kept; whether with its payload
    out results   text[],    -- settled, before, fenced
    out lanes     text[],    -- with keys: where …
    out keys      text[],    -- … these keys have messages that nobody lists any more
    out refused   text       -- null: the archive took what has ended
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_now      timestamptz := clock_timestamp();
    v_ended    bigint[];
    v_moved    bigint[];
    v_returned bigint[];
    v_gone     bigint[];
begin
    perform outbox.plan_settings();
    if 'given_back' = any (p_kinds) then
        -- Inserts a claim row, which happens under the claim lock only: readers of the ledger rely on ids.
        perform outbox.claim_lock();
    end if;
    perform from outbox.claim c
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay
    order by c.id
    for key share;

    select array_agg(r.result order by r.n),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('delivered', 'dropped', 'expired')),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('retried', 'died', 'parked')),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('unlisted', 'given_back')),
           array_agg(r.seq) filter (where r.result = 'settled')
    into results, v_ended, v_moved, v_returned, v_gone
    from (
        -- By hashed sets: a search of the claim's list for each message would take the square of it.
        select o.n, o.seq, o.kind, case
                   when (o.claim, o.token, o.seq) in (
                       select c.id, c.token, l.seq
                       from outbox.claim c, unnest(c.seqs) l(seq)
                       where c.id = any (p_claims) and c.relay = p_relay) then 'settled'
                   when (o.claim, o.token) in (
                       select c.id, c.token from outbox.claim c where c.id = any (p_claims) and c.relay = p_relay) then 'before'
                   when exists (select from outbox.message m where m.seq = o.seq)
                     or exists (select from outbox.waiting w where w.seq = o.seq) then 'fenced'
                   else 'before'
               end as result
        from unnest(p_claims, p_tokens, p_seqs, p_kinds) with ordinality o(claim, token, seq, kind, n)
    ) r;
    if v_gone is null then
        return;
    end if;

    if v_ended is not null and p_keep is not null then
        select a.refused into refused
        from (
            select array_agg(o.seq) as seqs, array_agg(o.kind) as kinds, array_agg(o.text) as texts, array_agg(c.destination) as destinations
            from unnest(p_claims, p_seqs, p_kinds, p_texts) o(claim, seq, kind, text)
            cross join lateral (select c.destination from outbox.claim c where c.id = o.claim limit 1) c
            where o.seq = any (v_ended)
        ) e
        cross join lateral outbox.archive_rows(e.seqs, e.kinds, e.texts, e.destinations, null, p_keep, v_now) a;
    elsif v_ended is not null then
        delete from outbox.message m where m.seq = any (v_ended);
        delete from outbox.waiting w where w.seq = any (v_ended);
    end if;
    if v_moved is not null then
        perform outbox.fail(v_moved, p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts, v_now);
    end if;
    if v_returned is not null then
        -- A scheduled row that was claimed once holds its key from then on.
        update outbox.waiting w set holds = true
        where w.seq = any (v_returned) and w.key is not null and not w.holds;
        select array_agg(k.destination), array_agg(k.key) into lanes, keys
        from (
            select distinct c.destination, m.key
            from unnest(p_claims, p_seqs, p_kinds) o(claim, seq, kind)
            cross join lateral (select c.destination from outbox.claim c where c.id = o.claim limit 1) c
            cross join lateral (
                select m.key from outbox.message m where m.seq = o.seq and m.key is not null limit 1
            ) m
            where o.kind = 'unlisted' and o.seq = any (v_returned)
        ) k;
        perform outbox.give_back(p_claims, p_seqs, p_kinds, v_gone);
    end if;

    if v_moved is not null or v_returned is not null then
        perform outbox.discard_awaited(coalesce(v_moved, '{}') || coalesce(v_returned, '{}'));
    end if;

    update outbox.claim c
    set (seqs, keys) = (select w.seqs, w.keys from outbox.without(c.seqs, c.keys, v_gone) w)
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay;
    delete from outbox.claim c
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay and c.seqs = '{}';
    if p_notify and v_returned is not null then
        perform pg_notify('outbox', '');
    end if;
end
$$;

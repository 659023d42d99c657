-- Settles one message, as delivered, in the transaction of the handler that has got it: the message is gone if that
-- commits. The claim still lists it, until its relay has looked (has_ended) and settles it like any other.
--
-- The row lock on the claim is the fence, and lasts as long as the transaction: a takeover skips locked claims, even when
-- the lease is over. Other messages of the claim may be settled meanwhile, also under REPEATABLE READ, because they change
-- none of its unique columns. A takeover does: it changes the relay, which is one of the columns of claim_owner for this.
-- So a snapshot that is older than a takeover fails here (40001) and does not let the late settlement pass.
--
-- With the owner's rights: a handler's role needs nothing but EXECUTE, and has to know relay, claim and token.
create function outbox.settle_tx(
    p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint,
    p_keep boolean -- null: what has ended is not kept; whether with its payload
) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- The same as plan_settings, but for this function only: the rest of the transaction is not ours.
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_listed      boolean;
    v_destination text;
    v_gone        bigint;
    v_more        bigint := 0;
    v_refused     text;
begin
    select p_seq = any (c.seqs), c.destination into v_listed, v_destination
    from outbox.claim c
    where c.id = p_claim and c.token = p_token and c.relay = p_relay
    for key share;
    if v_listed is null then
        return 'fenced';
    end if;
    if not v_listed then
        return 'before';
    end if;
    if p_keep is not null then
        select a.ended, a.refused into v_gone, v_refused
        from outbox.archive_rows(array[p_seq], array['delivered'], null, array[v_destination], null, p_keep, clock_timestamp()) a;
        if v_refused is not null then -- no reason to undo what the handler did
            raise warning 'outbox: message % is settled, but not kept: %', p_seq, v_refused;
        end if;
    else
        delete from outbox.message m where m.seq = p_seq;
        get diagnostics v_gone = row_count;
        delete from outbox.waiting w where w.seq = p_seq;
        get diagnostics v_more = row_count;
    end if;
    return case v_gone + v_more when 1 then 'settled' else 'before' end;
end
$$;
comment on function outbox.settle_tx is 'Internal: settles a message in its handler''s transaction. Returns settled, or why not: before, fenced.';
revoke execute on function outbox.settle_tx from public;

-- Whether a message has ended. Waits for a transaction that is about to decide it: a handler may have returned while its
-- commit is still on the way.
create function outbox.has_ended(p_seq bigint) returns boolean
language plpgsql volatile
as $$
begin
    perform outbox.plan_settings();
    perform from outbox.message m where m.seq = p_seq for key share;
    if found then
        return false;
    end if;
    perform from outbox.waiting w where w.seq = p_seq for key share;
    return not found;
end
$$;

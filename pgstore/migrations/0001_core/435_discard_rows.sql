-- Removes messages that no live relay holds. Runs under the claim lock, so nothing is claimed meanwhile, and fences
-- whoever listed what is removed, as a takeover does: a relay whose lease has lapsed may still come to settle.
-- Claims that a settlement is just working on are locked and count as held. Each statement here has a snapshot of its
-- own: what was settled before the locks were tried is seen.
create function outbox.discard_rows(p_seqs bigint[], p_actor text, p_reason text, out changed bigint, out held bigint[])
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_lost bigint[];
    v_free bigint[];
begin
    v_lost := array(
        select c.id from outbox.claim c
        where c.seqs && p_seqs
          and (c.relay is null or c.relay not in (
              select r.id from outbox.relay r where r.lease_until >= clock_timestamp()))
        for update skip locked);
    held := array(
        select s.seq from unnest(p_seqs) s(seq)
        where s.seq in (select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq) where c.id <> all (v_lost)));
    v_free := array(select s.seq from unnest(p_seqs) s(seq) where s.seq <> all (held));
    changed := outbox.end_discarded(v_free, p_actor, p_reason);
    perform outbox.take_over(v_lost, v_free);
end
$$;
comment on function outbox.discard_rows(bigint[], text, text) is 'Internal: removes these messages, under the claim lock.';
revoke execute on function outbox.discard_rows(bigint[], text, text) from public;

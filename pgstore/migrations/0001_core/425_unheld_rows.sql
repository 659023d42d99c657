-- Which of some messages no live relay holds, so that they may be changed under the claim lock: nothing is claimed meanwhile.
-- Claims that a settlement is just working on are locked and count as held. The others, which nobody owns any more or whose relay
-- has lapsed, are locked here: what is taken from them has to be taken over, which fences a relay that comes to settle all the
-- same. Each statement has a snapshot of its own: what was settled before the locks were tried is seen.
create function outbox.unheld_rows(p_seqs bigint[], out lost bigint[], out held bigint[], out free bigint[])
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    lost := array(
        select c.id from outbox.claim c
        where c.seqs && p_seqs
          and (c.relay is null or c.relay not in (
              select r.id from outbox.relay r where r.lease_until >= clock_timestamp()))
        for update skip locked);
    held := array(
        select s.seq from unnest(p_seqs) s(seq)
        where s.seq in (select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq) where c.id <> all (lost)));
    free := array(select s.seq from unnest(p_seqs) s(seq) where s.seq <> all (held));
end
$$;
comment on function outbox.unheld_rows(bigint[]) is 'Internal: which messages no live relay holds, under the claim lock.';
revoke execute on function outbox.unheld_rows(bigint[]) from public;

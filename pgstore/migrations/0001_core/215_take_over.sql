-- What remains of lost claims after these seqs were taken from them. A claim from which anything was taken
-- has no relay any more: its old owner is fenced for all of it, and its lapse has been counted. A claim whose
-- rows are all gone (their relay died between settling them and shrinking the claim cannot happen, an
-- operator's discard can) is removed.
create function outbox.take_over(lost bigint[], taken bigint[]) returns void
language plpgsql volatile
as $$
begin
    update outbox.claim c
    set (seqs, keys) = (select w.seqs, w.keys from outbox.without(c.seqs, c.keys, taken) w),
        lapses = c.lapses + (c.relay is not null)::int,
        relay = null
    where c.id = any (lost) and c.seqs && taken;
    delete from outbox.claim c
    where c.id = any (lost)
      and not exists (select from unnest(c.seqs) s(seq) join outbox.message m on m.seq = s.seq)
      and not exists (select from unnest(c.seqs) s(seq) join outbox.waiting w on w.seq = s.seq);
end
$$;

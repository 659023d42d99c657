-- Lists given-back messages in claims without a relay, one per lane and number of lapses: the first
-- candidates of the next claim.
create function outbox.give_back(p_claims bigint[], p_seqs bigint[], p_kinds text[], settled bigint[]) returns void
language sql volatile
as $$
    insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor, lapses)
    select (array_agg(c.token))[1], null, 0, c.destination, array_agg(u.seq order by u.seq),
           array_agg(u.key order by u.seq), 0, c.lapses
    from unnest(p_claims, p_seqs, p_kinds) o(claim, seq, kind)
    join outbox.claim c on c.id = o.claim
    cross join lateral unnest(c.seqs, c.keys) u(seq, key)
    where o.kind = 'given_back' and u.seq = o.seq and o.seq = any (settled)
    group by c.destination, c.lapses
$$;

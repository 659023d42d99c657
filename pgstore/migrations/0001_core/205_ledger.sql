-- The ledger as sets. Functions with a fixed number of rows, because a ledger whose statistics are wrong
-- (it is empty or full at the moment of ANALYZE) must not change the plan of the claim. STABLE: they see the
-- snapshot of the statement that calls them. low: no live claim has a lower id.
create function outbox.listed(low bigint) returns setof bigint
language plpgsql stable rows 2000
as $$
begin
    return query select unnest(c.seqs) from outbox.claim c where c.id >= low;
end
$$;
comment on function outbox.listed(bigint) is 'Every seq that a claim lists.';

create function outbox.held(low bigint, lane text, but bigint[]) returns setof int
language plpgsql stable rows 2000
as $$
begin
    return query
        select k.hash
        from outbox.claim c, unnest(c.keys) k(hash)
        where c.id >= low and c.destination = lane and c.id <> all (but) and k.hash is not null;
end
$$;
comment on function outbox.held(bigint, text, bigint[]) is 'Hashes of the keys held in a lane by claims other than these.';

create function outbox.without(seqs bigint[], keys int[], gone bigint[]) returns table (seqs bigint[], keys int[])
language sql immutable
as $$
    select coalesce(array_agg(l.seq order by l.n), '{}'), coalesce(array_agg(l.key order by l.n), '{}')
    from unnest($1, $2) with ordinality l(seq, key, n)
    where l.seq not in (select g.seq from unnest($3) g(seq))
$$;
comment on function outbox.without is 'What is left of a claim''s lists.';

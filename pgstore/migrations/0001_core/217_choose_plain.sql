-- What outbox.choose does, for the case that most claims are: nothing was lost, nothing is due, no topic is stopped, all
-- relays of the destination have the same topics, nothing is offered, everything fits. Candidates are the continued keys
-- and the window. Messages of keys that have anything in waiting or dead are left out: they are skipped keys from then on,
-- which outbox.choose continues. Null: it is not that case.
--
-- It exists because the executor needs a millisecond to set up and take down the plan of outbox.choose, which is five
-- times as large, and looks for less: docs/adr/0007-plain-claims.md. TestPlainChoice compares the two.
--
-- The key rule asks for an older message of each key in message. Most keys cannot have one: all that is left of the lane's
-- topics below p_high belongs to p_known (pgstore/base.go has the reason), and what lies between there and the floor,
-- unlisted, is few rows, which are read. Only known keys are looked up, or all if those rows are too many.
create function outbox.choose_plain(
    v_take        text,
    v_free        text,
    low           bigint,
    v_floor       bigint,
    p_destination text,
    p_limit       int,
    p_bytes       bigint,
    p_window      int,
    p_keys        text[],
    p_base        bigint,  -- below it nothing is left of the lane's topics …
    p_high        bigint,  -- … and below this
    p_known       text[],  -- only messages of these keys
    p_stream      bigint[] -- in place of the window
) returns outbox.choice
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    choice outbox.choice;
    v_each int := greatest(p_limit / greatest(cardinality(p_keys), 1), 1);
    v_many boolean := v_floor - p_high > 20000; -- to look at, of which most may be dead
begin
    with
    listed as materialized (select s.seq from outbox.listed(low) s(seq)),
    held as materialized (select k.hash from outbox.held(low, p_destination, '{}') k(hash)),
    freed as materialized (
        select m.seq, k.key, hashtext(k.key) as hash, m.bytes
        from unnest(p_keys) k(key)
        cross join lateral (
            select m.seq, octet_length(m.payload) as bytes
            from outbox.message m
            where m.key = k.key and m.seq >= p_base and m.seq < v_floor
              and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)
              and m.seq not in (select l.seq from listed l)
            order by m.seq
            limit v_each
        ) m
        where hashtext(k.key) not in (select h.hash from held h)
        limit 2000
    ),
    picked as materialized (
        select m.seq, case when m.topic ~ v_free then null else m.key end as key,
               octet_length(m.payload) as bytes,
               v_take = '' or m.topic ~ v_take as mine, m.seq in (select l.seq from listed l) as listed
        from outbox.message m
        where m.seq = any (p_stream)
        limit 10000
    ),
    win as materialized (
        select w.seq, w.key, w.hash, w.bytes, w.mine, w.listed,
               w.mine and not w.listed and (w.key is null or w.hash not in (select h.hash from held h)) as open
        from (
            select r.*, hashtext(r.key) as hash
            from (
                (select m.seq, case when m.topic ~ v_free then null else m.key end as key,
                        octet_length(m.payload) as bytes,
                        v_take = '' or m.topic ~ v_take as mine, m.seq in (select l.seq from listed l) as listed
                 from outbox.message m
                 where m.seq >= v_floor
                 order by m.seq
                 limit p_window)
                union all
                select p.* from picked p where p.key is null or p.key <> all (p_keys) -- those are continued
            ) r
            limit 10000
        ) w
    ),
    cand as materialized (
        select c.*
        from (
            select 0 as source, f.seq, f.key, f.hash, f.bytes from freed f
            union all
            select 1, w.seq, w.key, w.hash, w.bytes from win w where w.open
            order by 1, 2
            limit p_limit
        ) c
        limit 1000
    ),
    -- By arrays, which cost one index scan for all keys. A key may have any number of rows there.
    blocked as materialized (
        select b.key
        from (
            select o.key
            from outbox.waiting o
            where o.key = any (array(select c.key from cand c where c.key is not null and exists (
                      select from outbox.waiting h where h.key is not null and h.holds)))
              and o.holds
              and (v_take = '' or o.topic ~ v_take) and (v_free is null or o.topic !~ v_free)
              and (o.destination is null or o.destination = p_destination)
            limit 1000
        ) b
        union all
        select b.key
        from (
            select o.key
            from outbox.dead o
            where o.key = any (array(select c.key from cand c where c.key is not null and exists (
                      select from outbox.dead h where h.key is not null and h.holds)))
              and o.holds
              and (v_take = '' or o.topic ~ v_take) and (v_free is null or o.topic !~ v_free)
              and (o.destination is null or o.destination = p_destination)
            limit 1000
        ) b
    ),
    below as materialized (
        select m.seq, m.key
        from outbox.message m
        where not v_many and exists (select from cand c where c.source = 1 and c.key is not null)
          and m.seq >= p_high and m.seq < v_floor and m.key is not null
          and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)
          and m.seq not in (select l.seq from listed l)
        order by m.seq
        limit 2000
    ),
    few as materialized (select not v_many and count(*) < 2000 as few from below),
    -- seqs in order: the continued ones are below the window. One pass over both, since a join of them would be a loop in
    -- a loop. (The planner expects few rows.)
    bykey as materialized (
        select u.key, array_agg(u.seq) filter (where u.source is not null) as seqs,
               min(u.seq) filter (where u.source is not null) as lo, max(u.seq) filter (where u.source is not null) as hi,
               min(u.seq) filter (where u.source is null) as below
        from (
            select c.key, c.seq, c.source
            from cand c
            where c.key is not null and c.key not in (select b.key from blocked b)
            union all
            select b.key, b.seq, null
            from below b
            where b.seq not in (select c.seq from cand c)
        ) u
        group by u.key
        having max(u.source) = 1
           and (not (select f.few from few f) or u.key in (select k.key from unnest(p_known) k(key))
                or min(u.seq) filter (where u.source is null) is not null)
    ),
    -- The first row of the key that is not in its place among the candidates. Where below has all that can be, it is in
    -- there. Elsewhere the key is looked up, by places: a comparison of each row with all would take the square of a long
    -- run. A key that has only continued candidates has no other row up to the last of them.
    late as materialized (
        select l.*
        from (
            select b.*, (select m.seq
                         from (select m.seq, row_number() over (order by m.seq) as place
                               from outbox.message m
                               where m.key = b.key and m.seq >= p_base and m.seq <= b.hi
                                 and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)) m
                         where m.seq <> b.seqs[m.place]
                         limit 1) as older
            from bykey b
            where not (select f.few from few f) or b.key in (select k.key from unnest(p_known) k(key))
            union all
            select b.*, b.below
            from bykey b
            where (select f.few from few f) and b.below < b.hi and b.key not in (select k.key from unnest(p_known) k(key))
        ) l
        where l.older is not null
    ),
    head as materialized (
        select l.key, l.older as seq, m.bytes
        from late l
        cross join lateral (
            select octet_length(m.payload) as bytes from outbox.message m where m.seq = l.older limit 1
        ) m
        where l.older < l.lo
    ),
    ok as materialized (
        select c.seq, c.hash from cand c
        where c.key is null
           or c.key not in (select b.key from blocked b) and c.key not in (select l.key from late l)
        union all
        select s.seq, hashtext(l.key)
        from late l
        cross join lateral unnest(l.seqs) s(seq)
        where s.seq < l.older
        union all
        select h.seq, hashtext(h.key) from head h
    ),
    edge as materialized (
        select coalesce(
            case when p_stream is not null then v_floor end,
            case when c.n < w.open then
                (select min(w.seq) from win w where w.open and w.seq > c.last) end,
            w.past, v_floor) as floor, w.scanned, w.open
        from (select count(*) as scanned, count(*) filter (where w.open) as open, max(w.seq) + 1 as past from win w) w,
             (select count(*) filter (where c.source = 1) as n,
                     coalesce(max(c.seq) filter (where c.source = 1), 0) as last
              from cand c) c
    )
    select e.floor, e.scanned, greatest(e.open - c.n + o.n, 0), null, null, c.n >= p_limit, false,
           case when o.above < e.scanned then
               (select array_agg(distinct w.key) from win w
                where w.mine and w.key is not null and not w.listed and w.seq < e.floor
                  and w.seq not in (select o.seq from ok o)) end,
           null,
           (select array_agg(k.key) from unnest(p_keys) k(key)
            where hashtext(k.key) not in (select h.hash from held h)
              and k.key not in (
                  select f.key from freed f
                  group by f.key
                  having count(*) >= v_each or not bool_and(f.seq in (select o.seq from ok o)))),
           null, null, null, null, o.seqs, o.hashes, null, null, null, null, null,
           case when p_stream is not null then
               (select array_agg(c.seq) from cand c where c.source = 1 and c.seq in (select o.seq from ok o))
           end,
           (select array_agg(u.seq) from unnest(p_stream) u(seq) where u.seq not in (select p.seq from picked p)),
           case when p_stream is not null then pg_current_snapshot()::text end
    from edge e,
         (select count(*) as n, coalesce(sum(c.bytes), 0) as bytes,
                 coalesce(bool_or(c.source = 0 and c.key in (select b.key from blocked b)), false) as blocked
          from cand c) c,
         (select count(*) as n, count(*) filter (where o.seq >= v_floor) as above,
                 array_agg(o.seq) as seqs, array_agg(o.hash) as hashes
          from ok o) o
    where not c.blocked
      and c.bytes + (select coalesce(sum(h.bytes), 0) from head h) <= p_bytes
      and (select count(*) from blocked) < 1000
    into choice;
    return choice;
end
$$;

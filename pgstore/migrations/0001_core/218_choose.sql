-- Candidates, in this order: what lost claims list (given back, or their relay is gone), due rows of waiting,
-- offered seqs, continued keys (both below the floor), the window of message from the floor. They are cut to
-- the limits first and checked by the key rule afterwards; nothing is cut after that, because "no older one
-- outside this batch" would no longer be true. One statement, hence one snapshot.
--
-- Suspects are what two relays have died with (claim.lapses), or one that held it alone (waiting.lapses). They are
-- never candidates together with others: at most one is taken, into a claim of its own, and only by a relay that holds
-- none. Meanwhile the keys whose head is a suspect are left out before the limits, or their younger messages would fill
-- every batch.
--
-- For outbox.claim only, which holds the lock and explains the parameters.
create function outbox.choose(
    v_now         timestamptz,
    v_take        text,      -- topics of this lane
    v_dest        text,      -- topics of this destination, on all relays
    v_free        text,      -- topics without order
    v_stop        text,      -- topics that are paused or closed
    mixed         boolean,   -- other relays have other topics in this lane
    v_suspect     boolean,   -- the relay holds a suspect
    low           bigint,
    v_floor       bigint,
    p_destination text,
    p_limit       int,
    p_bytes       bigint,
    p_oversized   boolean,
    p_window      int,
    p_window_only boolean,
    p_due_at      timestamptz,
    p_due_seq     bigint,
    p_due_rows    int,
    p_keys        text[],
    p_seqs        bigint[],
    p_foreign     bigint[],
    p_lost        int,
    p_lost_after  bigint,
    p_stream      bigint[]   -- in place of the window
) returns outbox.choice
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    choice outbox.choice;
begin
    with
    lost as materialized (
        select l.*
        from (
            select c.id, c.seqs, c.lapses + (c.relay is not null)::int as lapses
            from outbox.claim c
            where c.id >= low
              and not p_window_only
              and (c.relay is null or c.relay not in (select r.id from outbox.relay r))
              and c.id <> all (p_foreign)
              and not (v_suspect and c.lapses + (c.relay is not null)::int >= 2)
            order by c.id <= p_lost_after, c.id
            limit p_lost
            for update skip locked
        ) l
        limit 512
    ),
    -- Listed seqs are candidates only here: the locked row's list is the newest, the snapshot's may hold
    -- seqs that were settled since.
    back as materialized (
        select l.id as claim, l.lapses, s.seq, m.topic, m.bytes, m.scheduled,
               m.topic ~ v_take and (m.destination is null or m.destination = p_destination) as mine,
               case when m.topic ~ v_free then null else m.key end as key
        from lost l
        cross join lateral unnest(l.seqs) s(seq)
        cross join lateral (
            select m.key, m.topic, octet_length(m.payload) as bytes, false as scheduled, null::text as destination
            from outbox.message m where m.seq = s.seq
            union all
            select w.key, w.topic, octet_length(w.payload), not w.holds, w.destination
            from outbox.waiting w where w.seq = s.seq
            limit 1
        ) m
    ),
    -- Scheduled rows hold their key from their first claim on, without saying so in their own row.
    scheduled as materialized (
        select b.key, b.seq from back b where b.scheduled and b.topic ~ v_dest and b.key is not null
    ),
    listed as materialized (select s.seq from outbox.listed(low) s(seq)),
    held as materialized (
        select k.hash from outbox.held(low, p_destination, (select coalesce(array_agg(l.id), '{}') from lost l)) k(hash)
    ),
    -- Of each key the oldest suspect, with the oldest undelivered message before it. Those that have crashed come
    -- first, they are not delivered; those that killed a relay last.
    suspects as materialized (
        select s.*, hashtext(s.key) in (select h.hash from held h) as held,
               least((select m.seq from outbox.message m
                      where m.key = s.key and m.seq < s.seq
                        and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                      order by m.seq limit 1),
                     (select o.seq from outbox.waiting o
                      where o.key = s.key and o.holds and o.seq < s.seq
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from outbox.dead o
                      where o.key = s.key and o.holds and o.seq < s.seq
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select min(o.seq) from scheduled o where o.key = s.key and o.seq < s.seq)) as older
        from (
            select u.*, row_number() over (partition by u.key order by u.seq) as place
            from (
                select b.seq, b.key, b.lapses, b.bytes, b.topic, case when b.lapses > 2 then 0 else 1 end as turn
                from back b
                where b.lapses >= 2 and b.mine
                union all
                select w.seq, case when w.topic ~ v_free then null else w.key end, w.lapses, w.bytes, w.topic, 2
                from (
                    select w.seq, w.key, w.lapses, octet_length(w.payload) as bytes, w.topic, w.destination
                    from outbox.waiting w
                    where w.lapses > 0 and w.available_at <= v_now
                    order by w.available_at, w.seq
                    limit 1000
                ) w
                where not v_suspect and not p_window_only
                  and (w.destination is null or w.destination = p_destination)
                  and w.topic ~ v_take and w.seq not in (select l.seq from listed l)
            ) u
        ) s
        where s.key is null or s.place = 1
    ),
    suspect as materialized (
        select s.seq, s.key, s.lapses, s.bytes
        from suspects s
        where s.held is not true and s.older is null and (v_stop is null or s.topic !~ v_stop)
        order by s.turn, s.seq
        limit 1
    ),
    -- Keys that are not for the other candidates: held, or a suspect is their head.
    reserved as materialized (
        select h.hash from held h
        union all
        select hashtext(s.key) from suspects s where s.key is not null and s.older is null
    ),
    -- A window over the due rows, since any number of them may belong to others, be paused, or stand behind a head
    -- that waits. The next claim goes on after it, and begins anew at the end.
    ripe as materialized (
        select r.*
        from (
            select w.available_at, w.seq, w.key, w.topic, w.destination, w.lapses, octet_length(w.payload) as bytes
            from outbox.waiting w
            where w.available_at <= v_now and (w.available_at, w.seq) > (p_due_at, p_due_seq)
              and not p_window_only
            order by w.available_at, w.seq
            limit p_due_rows
        ) r
        limit 4000
    ),
    -- Rows behind a head that cannot be taken now are left out before the limit: they would fill it, for as long
    -- as that head waits. (A head that is due itself and finds no room here joins by "head".) Such a head is looked
    -- for once for each key, from its last row here: a redrive makes any number of rows of a key due, and a walk
    -- from each of them over all before it would take the square of that. Behind a thousand that can be taken it does
    -- not matter. No join with the keys: without statistics it would be a loop.
    due as materialized (
        select d.seq, d.key, d.topic, d.bytes
        from (
            select w.seq, w.key, w.topic, w.bytes
            from (
                select l.*, max(l.ends) over (partition by l.line) as block
                from (
                    select n.*, case
                               when n.line is not null and n.place = 1
                                   and hashtext(n.line) not in (select h.hash from reserved h)
                               then least(
                                   9223372036854775807,
                                   (select o.seq
                                    from (select o.seq, o.available_at, o.lapses, o.topic
                                          from outbox.waiting o
                                          where o.key = n.line and o.holds and o.seq < n.seq
                                            and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                                            and (o.destination is null or o.destination = p_destination)
                                          order by o.seq limit 1000) o
                                    where o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop
                                    order by o.seq limit 1),
                                   (select o.seq from outbox.dead o
                                    where o.key = n.line and o.holds and o.seq < n.seq
                                      and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                                      and (o.destination is null or o.destination = p_destination)
                                    order by o.seq limit 1),
                                   (select case when m.topic ~ v_take and (v_stop is null or m.topic !~ v_stop) then null else m.seq end
                                    from outbox.message m
                                    where m.key = n.line and m.seq < n.seq
                                      and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                                    order by m.seq limit 1))
                               end as ends
                    from (
                        select r.*, row_number() over (partition by r.line order by r.seq desc) as place
                        from (
                            select w.*, case when w.topic ~ v_free then null else w.key end as line
                            from ripe w
                            where (w.destination is null or w.destination = p_destination)
                              and w.topic ~ v_take
                              and (v_stop is null or w.topic !~ v_stop)
                              and w.lapses = 0
                              and w.seq not in (select l.seq from listed l)
                        ) r
                    ) n
                ) l
            ) w
            where w.line is null or w.seq < w.block
            order by w.available_at, w.seq
            limit greatest(p_limit / 2, 1)
        ) d
        limit 1000
    ),
    offered as materialized (
        select m.seq, m.topic, m.bytes
        from (select distinct u.seq from unnest(p_seqs) u(seq)) s
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from outbox.message m
            where m.seq = s.seq and m.seq < v_floor and (m.key is null or m.topic ~ v_free)
            limit 1
        ) m
        where not p_window_only
          and m.topic ~ v_take
          and (v_stop is null or m.topic !~ v_stop)
          and m.seq not in (select l.seq from listed l)
    ),
    parked as materialized (
        select k.key, hashtext(k.key) in (select h.hash from reserved h) as held,
               least((select o.seq from outbox.waiting o
                      where o.key = k.key and o.holds
                        and (o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop)
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from outbox.dead o
                      where o.key = k.key and o.holds
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1)) as block
        from unnest(p_keys) k(key)
    ),
    continued as materialized (
        select k.key, k.held,
               least(k.block, case when mixed or v_stop is not null then
                   (select m.seq
                    from (select m.seq, m.topic from outbox.message m
                          where m.key = k.key and m.seq < coalesce(k.block, v_floor)
                            and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                          order by m.seq limit 1000) m
                    where m.topic !~ v_take or m.topic ~ v_stop
                    order by m.seq limit 1)
               end) as block
        from parked k
    ),
    freed as materialized (
        select m.seq, k.key, m.topic, m.bytes
        from continued k
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from outbox.message m
            where m.key = k.key and m.seq < least(v_floor, k.block)
              and m.topic ~ v_take and (v_free is null or m.topic !~ v_free)
              and m.seq not in (select l.seq from listed l)
            order by m.seq
            limit greatest(p_limit / cardinality(p_keys), 1)
        ) m
        where not k.held and not p_window_only
        limit 2000
    ),
    picked as materialized (
        select m.seq, m.topic, case when m.topic ~ v_free then null else m.key end as key, octet_length(m.payload) as bytes
        from outbox.message m
        where m.seq = any (p_stream)
        limit 10000
    ),
    win as materialized (
        select w.seq, w.topic, w.key, w.bytes, w.mine,
               w.mine and (v_stop is null or w.topic !~ v_stop)
                   and w.seq not in (select l.seq from listed l)
                   and (w.key is null or hashtext(w.key) not in (select h.hash from reserved h)) as eligible
        from (
            (select m.seq, m.topic, case when m.topic ~ v_free then null else m.key end as key,
                    octet_length(m.payload) as bytes, m.topic ~ v_take as mine
             from outbox.message m
             where m.seq >= v_floor
             order by m.seq
             limit p_window)
            union all
            select p.seq, p.topic, p.key, p.bytes, p.topic ~ v_take
            from picked p -- but for what is a candidate already: rows of continued keys, and what is offered
            where (p.key is null or p.key <> all (p_keys)) and p.seq not in (select u.seq from unnest(p_seqs) u(seq))
        ) w
        limit 10000
    ),
    -- Keys whose head nobody may take now, of a window that has grown because the last one brought little: their
    -- rows would fill the batch again and again. Keys with few rows here could not, and need not be looked for.
    barred as materialized (
        select k.key
        from (
            select w.key, min(w.seq) as lo from win w
            where p_window > p_limit and w.eligible and w.key is not null
            group by w.key
            having count(*) > 3
        ) k
        where (select o.seq from outbox.waiting o
               where o.key = k.key and o.holds and o.seq < k.lo
                 and (o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop)
                 and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                 and (o.destination is null or o.destination = p_destination)
               order by o.seq limit 1) is not null
           or (select o.seq from outbox.dead o
               where o.key = k.key and o.holds and o.seq < k.lo
                 and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                 and (o.destination is null or o.destination = p_destination)
               order by o.seq limit 1) is not null
    ),
    open as materialized (
        select w.seq, w.key, w.bytes from win w
        where w.eligible and (w.key is null or w.key not in (select b.key from barred b))
    ),
    cand as materialized (
        select c.source, c.seq, c.key, c.lapses, c.bytes,
               sum(c.bytes) over w <= p_bytes or p_oversized and row_number() over w = 1 as fits
        from (
            select c.*
            from (
                select 0 as source, b.seq, b.key, b.lapses, b.bytes
                from back b
                where b.mine and b.lapses < 2 and (v_stop is null or b.topic !~ v_stop)
                  and (b.key is null or hashtext(b.key) not in (select h.hash from reserved h))
                union all
                select -1, s.seq, s.key, s.lapses, s.bytes from suspect s
                union all
                select 1, d.seq, case when d.topic ~ v_free then null else d.key end, 0, d.bytes from due d
                union all
                select 2, o.seq, null, 0, o.bytes from offered o
                union all
                select 3, f.seq, f.key, 0, f.bytes from freed f where v_stop is null or f.topic !~ v_stop
                union all
                select 4, w.seq, w.key, 0, w.bytes from open w
            ) c
            order by c.source, c.seq
            limit p_limit
        ) c
        window w as (order by c.source, c.seq)
        limit 1000
    ),
    taken as materialized (select c.* from cand c where c.fits),
    -- Fresh messages never enter a claim of messages whose relay died: they would share its lapses. So a key
    -- that has both takes only the run of the kind of its head.
    bykey as materialized (
        select k.key, k.seqs, least(k.fresh, k.lapsed) as lo, k.hi, k.bytes,
               k.lapsed is not null and (k.fresh is null or k.lapsed < k.fresh) as relapsed,
               case when k.lapsed is not null and k.fresh is not null then greatest(k.fresh, k.lapsed) end as other
        from (
            select t.key, array_agg(t.seq) as seqs, max(t.seq) as hi, sum(t.bytes) as bytes,
                   min(t.seq) filter (where t.lapses = 0) as fresh, min(t.seq) filter (where t.lapses > 0) as lapsed
            from taken t
            where t.key is not null and t.source >= 0
            group by t.key
        ) k
    ),
    -- Scalar subqueries, and limits around every parameter limit: any join or NOT EXISTS here becomes a scan
    -- of the table as soon as statistics are wrong.
    probe as materialized (
        select b.*,
               (select m.seq from outbox.message m
                where m.key = b.key and m.seq < b.hi and m.seq <> all (b.seqs)
                  and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                order by m.seq limit 1) as ready,
               least((select o.seq from outbox.waiting o
                      where o.key = b.key and o.holds and o.seq < b.hi and o.seq <> all (b.seqs)
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from outbox.dead o
                      where o.key = b.key and o.holds and o.seq < b.hi
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select min(o.seq) from scheduled o where o.key = b.key and o.seq <> all (b.seqs))) as block
        from bykey b
    ),
    head as materialized (
        select p.key, m.seq, least(p.lo, p.ready) as until, cardinality(p.seqs) as room, p.bytes - m.bytes as bytes
        from probe p
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from outbox.message m where m.seq = p.ready and (p.block is null or m.seq < p.block)
            union all
            select w.seq, w.topic, octet_length(w.payload)
            from outbox.waiting w
            where w.seq = p.block and (p.ready is null or w.seq < p.ready) and w.available_at <= v_now and w.lapses = 0
            limit 1
        ) m
        where m.seq < p.lo
          and m.seq not in (select l.seq from listed l)
          and m.topic ~ v_take and (v_stop is null or m.topic !~ v_stop)
          and (m.bytes <= p.bytes or m.bytes <= p_bytes - (select sum(t.bytes) from taken t))
    ),
    -- The head's followers in waiting go with it, in the place of as many candidates, up to the first that anything is
    -- before: of many due rows of a key the pass over them would meet only some behind the head.
    followers as materialized (
        select h.key, f.seq
        from head h
        cross join lateral (
            select f.seq, bool_and(f.takeable) over w as open, row_number() over w as place, sum(f.bytes) over w as bytes
            from (
                select o.seq, octet_length(o.payload) as bytes,
                       o.available_at <= v_now and o.lapses = 0 and o.topic ~ v_take
                           and (v_stop is null or o.topic !~ v_stop)
                           and o.seq not in (select l.seq from listed l) as takeable
                from outbox.waiting o
                where o.key = h.key and o.holds and o.seq > h.seq
                  and o.seq < least(
                      h.until,
                      (select d.seq from outbox.dead d
                       where d.key = h.key and d.holds and d.seq > h.seq
                         and d.topic ~ v_dest and (v_free is null or d.topic !~ v_free)
                         and (d.destination is null or d.destination = p_destination)
                       order by d.seq limit 1),
                      (select min(s.seq) from scheduled s where s.key = h.key and s.seq > h.seq))
                  and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                  and (o.destination is null or o.destination = p_destination)
                order by o.seq
                limit 1000
            ) f
            window w as (order by f.seq)
        ) f
        where f.open and f.place < h.room and f.bytes <= h.bytes
    ),
    ok as materialized (
        select t.seq, null::int as hash, t.lapses > 0 as relapsed
        from taken t where t.key is null and t.source >= 0
        union all
        select s.seq, hashtext(p.key), p.relapsed
        from probe p
        cross join lateral unnest(p.seqs) s(seq)
        where (p.ready is null or s.seq < p.ready)
          and (p.block is null or s.seq < p.block)
          and (p.other is null or s.seq < p.other)
        union all
        select h.seq, hashtext(h.key), false from head h
        union all
        select f.seq, hashtext(f.key), false from followers f
    ),
    seen as materialized (
        select r.available_at, r.seq
        from ripe r
        where case when (select count(*) from due) >= greatest(p_limit / 2, 1) then r.seq in (select d.seq from due d)
                   else p_due_rows > 0 and (select count(*) from ripe) >= p_due_rows end
        order by r.available_at desc, r.seq desc
        limit 1
    ),
    edge as materialized (
        select coalesce(
            case when p_stream is not null then v_floor end,
            (select min(w.seq) from open w
             where w.seq > coalesce((select max(t.seq) from taken t where t.source = 4), 0)),
            (select max(w.seq) + 1 from win w),
            v_floor) as floor
    )
    select (select e.floor from edge e),
           (select count(*) from win),
           (select count(*) from open)
               - (select count(*) from taken t where t.source = 4 and t.seq not in (select o.seq from ok o)),
           (select s.available_at from seen s),
           (select s.seq from seen s),
           coalesce((select count(*) >= p_limit or not bool_and(c.fits) from cand c), false)
               or (select count(*) from lost) >= p_lost,
           (select count(*) from cand) > 0 and (select count(*) from taken) = 0,
           (select array_agg(distinct w.key) from win w
            where w.mine and w.key is not null and w.seq < (select e.floor from edge e)
              and w.seq not in (select o.seq from ok o) and w.seq not in (select l.seq from listed l)),
           (select array_agg(k.key) from continued k where not k.held and k.block < v_floor),
           (select array_agg(k.key) from continued k
            where not k.held and not p_window_only and k.block is null
              and k.key not in (
                  select f.key from freed f
                  group by f.key
                  having count(*) >= greatest(p_limit / cardinality(p_keys), 1)
                      or not bool_and(f.seq in (select o.seq from ok o)))),
           (select array_agg(l.id) filter (where l.id in (select b.claim from back b)
                and l.id not in (select b.claim from back b where b.mine)) from lost l),
           (select max(l.id) from lost l),
           (select array_agg(l.id) from lost l),
           (select max(case when b.seq in (select o.seq from ok o where o.relapsed) then b.lapses end) from back b),
           l.seqs, l.hashes, l.relisted, l.rehashed,
           (select array_agg(t.seq) from taken t where t.source = -1),
           (select array_agg(hashtext(t.key)) from taken t where t.source = -1),
           (select max(t.lapses) from taken t where t.source = -1),
           case when p_stream is not null then
               (select array_agg(t.seq) from taken t where t.source = 4 and t.seq in (select o.seq from ok o))
           end,
           (select array_agg(u.seq) from unnest(p_stream) u(seq) where u.seq not in (select p.seq from picked p)),
           case when p_stream is not null then pg_current_snapshot()::text end
    from (
        select array_agg(o.seq) filter (where not o.relapsed) as seqs,
               array_agg(o.hash) filter (where not o.relapsed) as hashes,
               array_agg(o.seq) filter (where o.relapsed) as relisted,
               array_agg(o.hash) filter (where o.relapsed) as rehashed
        from (select o.* from ok o order by o.seq) o
    ) l
    into choice;
    return choice;
end
$$;

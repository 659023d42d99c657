-- A page of one place of outbox.stored: from (seq, generation) = ($2, $3) on, of the next $4 rows those that match, at most
-- $5. In the message table a key is read in its index; "between", because with an equality the planner may walk the
-- primary key. The last row says how far this has come; its seq is null at the end.
with page as materialized (
    (select s.seq, s.generation, s.topic, s.key, s.state, s.error_class, s.last_error, coalesce(s.ended_at, s.published_at) as at,
            s.destination
     from outbox.stored s
     where s.place = $1::text and s.seq >= $2 and (s.seq, s.generation) > ($2, $3) and ($1 <> 'message' or $7::text is null)
     order by s.seq, s.generation limit $4)
    union all
    (select m.seq, 0, m.topic, m.key, 'ready', null, null, m.published_at, null
     from outbox.message m
     where $1 = 'message' and m.key between $7 and $7 and m.seq > $2
     order by m.key, m.seq limit $4)
), found as materialized (
    select p.seq, p.generation
    from page p
    where ($6::text is null or p.topic ~ (select outbox.topics_regexp(jsonb_build_array(jsonb_build_object('in', true, 'pattern', $6))))) -- made once
      and ($7 is null or p.key = $7)
      and ($8::text is null or p.error_class = $8)
      and ($9::text is null or position($9 in p.last_error) > 0)
      and ($10::interval is null or p.at <= clock_timestamp() - $10)
      and ($11::interval is null or p.at > clock_timestamp() - $11)
      and p.state = any ($12::text[])
      and ($14::text is null or p.destination = $14)
    limit $5
), reached as (
    (select f.seq, f.generation from found f where (select count(*) from found) = $5 order by f.seq desc, f.generation desc limit 1)
    union all
    (select p.seq, p.generation from page p where (select count(*) from page) = $4 order by p.seq desc, p.generation desc limit 1)
    union all
    select null, null
    limit 1
)
(select s.seq, s.id, s.topic, coalesce(s.key, ''), s.state,
        s.place in ('message', 'waiting') and s.seq in (select unnest(c.seqs) from outbox.claim c where c.relay is not null),
        s.holds and s.place <> 'message', s.attempts, s.generation, coalesce(s.destination, ''), s.published_at, s.available_at,
        s.ended_at, s.expires_at, coalesce(s.error_class, ''), coalesce(s.last_error, ''), coalesce(s.actor, ''), s.payload is null,
        case when $13 then s.headers::text end, case when $13 then s.payload end
 from found f
 join lateral (
     select * from outbox.stored s where s.place = $1 and s.seq = f.seq and s.generation = f.generation limit 1
 ) s on true
 order by s.seq, s.generation)
union all
select r.seq, null, null, null, null, false, false, 0, r.generation, null, null, null, null, null, null, null, null, false, null, null
from reached r

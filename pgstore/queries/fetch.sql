-- What a claim request brought, by its token, since the request's answer is not known yet when this is sent.
-- Durations are cut to the 285 years that a time.Duration can hold.
-- A message is in message or in waiting; one that was discarded meanwhile is in neither. $4 is what the stream has
-- brought already.
select c.id, c.lapses, m.seq, m.id, m.topic, coalesce(m.key, ''), m.payload, m.headers::text, coalesce(m.dedup_key, ''),
       m.max_attempts, case when m.broker_ttl is not null
           then (least(extract(epoch from m.broker_ttl), 9e9) * 1000000)::bigint end,
       case when isfinite(coalesce(m.expires_at, m.published_at + $3))
           then (greatest(least(extract(epoch from coalesce(m.expires_at, m.published_at + $3) - clock_timestamp()), 9e9),
                          -9e9) * 1000000)::bigint end,
       m.published_at, m.generation, m.attempts
from outbox.claim c
cross join lateral unnest(c.seqs) s(seq)
cross join lateral (
    select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at,
           m.published_at, 0 as generation, 0 as attempts
    from outbox.message m where m.seq = s.seq
    union all
    select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl, w.expires_at,
           w.published_at, w.generation, w.attempts
    from outbox.waiting w where w.seq = s.seq
    limit 1
) m
where c.token = $1 and c.relay = $2 and s.seq not in (select u.seq from unnest($4::bigint[]) u(seq))

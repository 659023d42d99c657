-- What a claim request brought, by its token, since the request's answer is not known yet when this is sent.
-- Durations are cut to the 285 years that a time.Duration can hold.
-- A message is in message or in waiting; one that was discarded meanwhile is in neither. By arrays: one index scan a table.
-- A function, because only within one can the planner be told to use the indexes of tables that were empty when it planned.
create function outbox.fetch(
    p_token uuid,
    p_relay uuid,
    p_ttl   interval, -- of messages without an end; null: none
    p_known bigint[]  -- the stream has brought these
) returns table (
    claim bigint, lapses int, seq bigint, id uuid, topic text, key text, payload bytea, headers text, dedup_key text,
    max_attempts int,
    broker_ttl   bigint, -- microseconds
    time_left    bigint, -- microseconds
    published_at timestamptz, generation int, attempts int
)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    perform outbox.plan_settings();
    return query
        select c.id, c.lapses, m.seq, m.id, m.topic, coalesce(m.key, ''), m.payload, m.headers::text, coalesce(m.dedup_key, ''),
               m.max_attempts, case when m.broker_ttl is not null
                   then (least(extract(epoch from m.broker_ttl), 9e9) * 1000000)::bigint end,
               case when isfinite(coalesce(m.expires_at, m.published_at + p_ttl))
                   then (greatest(least(extract(epoch from coalesce(m.expires_at, m.published_at + p_ttl) - clock_timestamp()), 9e9),
                                  -9e9) * 1000000)::bigint end,
               m.published_at, m.generation, m.attempts
        from (
            select c.id, c.lapses,
                   case when p_known = '{}' then c.seqs
                        else array(select s.seq from unnest(c.seqs) s(seq) where s.seq not in (select k.seq from unnest(p_known) k(seq)))
                   end as seqs
            from outbox.claim c
            where c.token = p_token and c.relay = p_relay
        ) c
        cross join lateral (
            select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at,
                   m.published_at, 0 as generation, 0 as attempts
            from outbox.message m where m.seq = any (c.seqs)
            union all
            select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl, w.expires_at,
                   w.published_at, w.generation, w.attempts
            from outbox.waiting w where w.seq = any (c.seqs)
        ) m;
end
$$;

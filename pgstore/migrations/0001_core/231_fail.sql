-- Moves messages whose attempt failed: to waiting for another one, or to the dead, parked ones with their key held. One
-- that crashed stays a suspect (lapses is 2), of any other failure nothing is suspected any more.
create function outbox.fail(
    failed bigint[], p_seqs bigint[], p_kinds text[], p_attempts int[], p_delays bigint[],
    p_classes text[], p_texts text[], now timestamptz
) returns void
language plpgsql volatile
as $$
begin
    update outbox.waiting w
    set attempts = o.attempts, lapses = 2 * (o.class = 'crash')::int, holds = w.key is not null,
        available_at = least(now + o.delay * interval '1 microsecond', w.expires_at),
        first_failed_at = coalesce(w.first_failed_at, now), failed_at = now,
        error_class = o.class, last_error = o.text
    from unnest(p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts) o(seq, kind, attempts, delay, class, text)
    where w.seq = o.seq and o.seq = any (failed) and o.kind = 'retried';

    with m as (
        delete from outbox.message m where m.seq = any (failed) returning m.*
    ), o as (
        select * from unnest(p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts)
            o(seq, kind, attempts, delay, class, text)
    ), retried as (
        insert into outbox.waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at, attempts, lapses, holds, available_at, first_failed_at, failed_at, error_class, last_error)
        select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl,
            m.expires_at, m.published_at, o.attempts, 2 * (o.class = 'crash')::int, m.key is not null,
            least(now + o.delay * interval '1 microsecond', m.expires_at), now, now, o.class, o.text
        from m join o using (seq) where o.kind = 'retried'
    )
    insert into outbox.dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
        expires_at, published_at, attempts, lapses, holds, first_failed_at, failed_at, error_class, last_error, died_at)
    select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl,
        m.expires_at, m.published_at, o.attempts, 2 * (o.class = 'crash')::int, o.kind = 'parked' and m.key is not null,
        now, now, o.class, o.text, now
    from m join o using (seq) where o.kind in ('died', 'parked');

    with w as (
        delete from outbox.waiting w
        using unnest(p_seqs, p_kinds) o(seq, kind)
        where w.seq = o.seq and w.seq = any (failed) and o.kind in ('died', 'parked')
        returning w.*
    )
    insert into outbox.dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
        expires_at, published_at, generation, attempts, lapses, holds, destination, first_failed_at, failed_at,
        error_class, last_error, died_at)
    select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl,
        w.expires_at, w.published_at, w.generation, o.attempts, 2 * (o.class = 'crash')::int,
        o.kind = 'parked' and w.key is not null, w.destination,
        coalesce(w.first_failed_at, now), now, o.class, o.text, now
    from w join unnest(p_seqs, p_kinds, p_attempts, p_classes, p_texts) o(seq, kind, attempts, class, text) using (seq);
end
$$;

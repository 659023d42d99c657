-- Ends messages that are kept: moves them to the archive, with what became of them. p_actor, who discards them, also
-- means dead ones. What the archive refuses (a constraint of somebody's own, a lock that is held for long) is ended all
-- the same, without being kept, and refused says why.
create function outbox.archive_rows(
    p_seqs bigint[], p_outcomes text[], p_details text[], p_destinations text[], p_actor text,
    p_payload boolean, -- keep it
    p_now timestamptz,
    out ended bigint, out refused text
)
language plpgsql volatile
as $$
declare
    v_patience constant text := current_setting('lock_timeout');
    v_n        bigint;
begin
    begin
        perform set_config('lock_timeout', '500ms', true);
        with o as (
            select * from unnest(p_seqs, p_outcomes, p_details, p_destinations) o(seq, outcome, detail, destination)
        ), m as (
            delete from outbox.message m where m.seq = any (p_seqs) returning m.*
        ), w as (
            delete from outbox.waiting w where w.seq = any (p_seqs) returning w.*
        ), d as (
            delete from outbox.dead d where p_actor is not null and d.seq = any (p_seqs) returning d.*
        ), e as (
            select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at,
                   m.published_at, 0 as generation, 0 as attempts, null::text as destination
            from m
            union all
            select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl, w.expires_at,
                   w.published_at, w.generation, w.attempts, w.destination
            from w
            union all
            select d.seq, d.id, d.topic, d.key, d.payload, d.headers, d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at,
                   d.published_at, d.generation, d.attempts, d.destination
            from d
        )
        insert into outbox.archive (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at,
            published_at, generation, attempts, destination, outcome, detail, actor, ended_at)
        select e.seq, e.id, e.topic, e.key, case when p_payload then e.payload end, e.headers, e.dedup_key, e.max_attempts, e.broker_ttl,
            e.expires_at, e.published_at, e.generation, e.attempts + (o.outcome in ('delivered', 'dropped'))::int,
            coalesce(o.destination, e.destination), o.outcome, nullif(o.detail, ''), p_actor, p_now
        from e join o using (seq);
        get diagnostics ended = row_count;
        perform set_config('lock_timeout', v_patience, true);
        return;
    exception when others then
        refused := sqlerrm;
    end;
    delete from outbox.message m where m.seq = any (p_seqs);
    get diagnostics ended = row_count;
    delete from outbox.waiting w where w.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    ended := ended + v_n;
    if p_actor is not null then
        delete from outbox.dead d where d.seq = any (p_seqs);
        get diagnostics v_n = row_count;
        ended := ended + v_n;
    end if;
end
$$;
comment on function outbox.archive_rows is 'Internal: ends messages and keeps them in the archive.';

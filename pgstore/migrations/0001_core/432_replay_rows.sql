-- Messages that have ended wait again, for one destination only, due now and without an end of their life. With a key
-- they hold it in that destination from this moment on: what is replayed of it goes before what is younger. One that is
-- undelivered or dead is under way already, and what was kept without its payload cannot be delivered.
create function outbox.replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, out changed bigint, out held bigint, out bare bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    with newest as materialized (
        select distinct on (a.seq) a.seq, a.generation, a.ended_at, a.payload is null as bare,
               exists (select from outbox.message m where m.seq = a.seq)
               or exists (select from outbox.waiting w where w.seq = a.seq)
               or exists (select from outbox.dead d where d.seq = a.seq) as held
        from outbox.archive a
        where a.seq = any (p_seqs)
        order by a.seq, a.generation desc, a.ended_at desc
    ), replayed as (
        insert into outbox.waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, published_at,
            generation, holds, destination, available_at)
        select a.seq, a.id, a.topic, a.key, a.payload, a.headers, a.dedup_key, a.max_attempts, a.broker_ttl, a.published_at,
            a.generation + 1, a.key is not null, p_filter ->> 'destination', clock_timestamp()
        from newest n
        join lateral (
            select a.* from outbox.archive a where a.seq = n.seq and a.generation = n.generation and a.ended_at = n.ended_at limit 1
        ) a on true
        where not n.bare and not n.held and not p_dry_run
        returning 1
    )
    select (select count(*) from replayed), count(*) filter (where n.held), count(*) filter (where n.bare and not n.held)
    into changed, held, bare
    from newest n;
end
$$;
comment on function outbox.replay_rows is 'Internal: replays these messages, under the claim lock.';
revoke execute on function outbox.replay_rows from public;

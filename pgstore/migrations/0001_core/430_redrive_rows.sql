-- Dead messages wait again, due now. With a key they hold it from this moment on, so nothing younger passes; a
-- parked key is held without a gap, since one transaction moves the row. The generation tells brokers that
-- deduplicate by id that this is not the message they have seen. One that died of a crash is a suspect still. One that nobody
-- would take where it is bound to stays dead, unless it loses the binding.
create function outbox.redrive_rows(p_seqs bigint[], p_filter jsonb, out changed bigint, out held bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_by_route constant boolean := p_filter ? 'by_route';
    v_left     bigint[] := '{}';
begin
    if not v_by_route then
        v_left := outbox.untaken_rows(p_seqs);
    end if;
    with d as (
        delete from outbox.dead d where d.seq = any (p_seqs) and d.seq <> all (v_left) returning d.*
    )
    insert into outbox.waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at,
        published_at, generation, lapses, holds, destination, available_at, failed_at, error_class, last_error)
    select d.seq, d.id, d.topic, d.key, d.payload, d.headers, d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at,
        d.published_at, d.generation + 1, d.lapses, d.key is not null, case when not v_by_route then d.destination end,
        clock_timestamp(), d.failed_at, d.error_class, d.last_error
    from d;
    get diagnostics changed = row_count;
    held := cardinality(v_left);
end
$$;
comment on function outbox.redrive_rows(bigint[], jsonb) is 'Internal: redrives these messages, under the claim lock.';
revoke execute on function outbox.redrive_rows(bigint[], jsonb) from public;

-- Dead messages that are bound to a destination where no live relay would take them. Without a live relay nobody knows.
create function outbox.untaken_rows(p_seqs bigint[]) returns bigint[]
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select d.seq from outbox.dead d
        where d.seq = any (p_seqs) and d.destination is not null
          and exists (select from outbox.relay r where r.lease_until >= clock_timestamp())
          and not exists (
              select from outbox.relay r
              where r.lease_until >= clock_timestamp() and d.topic ~ (r.destinations -> d.destination ->> 'take')));
end
$$;
comment on function outbox.untaken_rows(bigint[]) is 'Internal: dead messages that nobody would take where they are bound to.';
revoke execute on function outbox.untaken_rows(bigint[]) from public;

create function outbox.retry_rows(p_seqs bigint[]) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_now     constant timestamptz := clock_timestamp();
    v_changed bigint;
begin
    update outbox.waiting w set available_at = v_now where w.seq = any (p_seqs) and w.available_at > v_now;
    get diagnostics v_changed = row_count;
    return v_changed;
end
$$;
comment on function outbox.retry_rows(bigint[]) is 'Internal: makes these messages due, under the claim lock.';
revoke execute on function outbox.retry_rows(bigint[]) from public;

-- Waiting messages lose their binding: the routes decide again where they go. They are due now, so that lanes which have passed them
-- by come to them once more, and hold their key from this moment on wherever they may go. A claim that nobody owns any more does
-- not list them longer, since relays that handle nothing of it pass it by; what it knew of relays that have died stays with them.
create function outbox.reroute_rows(p_seqs bigint[], p_filter jsonb, out changed bigint, out held bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_now  constant timestamptz := clock_timestamp();
    v_rows record;
begin
    select * into v_rows from outbox.unheld_rows(array(
        select w.seq from outbox.waiting w where w.seq = any (p_seqs) and w.destination = p_filter ->> 'destination'));
    update outbox.waiting w
    set destination = null, available_at = v_now, holds = w.key is not null,
        lapses = case when w.seq in (
            select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq)
            where c.id = any (v_rows.lost) and c.lapses + (c.relay is not null)::int >= 2) then 2 else w.lapses end
    where w.seq = any (v_rows.free);
    get diagnostics changed = row_count;
    held := cardinality(v_rows.held);
    perform outbox.take_over(v_rows.lost, v_rows.free);
end
$$;
comment on function outbox.reroute_rows(bigint[], jsonb) is 'Internal: lets the routes decide again where these messages go, under the claim lock.';
revoke execute on function outbox.reroute_rows(bigint[], jsonb) from public;

-- Dead messages wait again, due now. With a key they hold it from this moment on, so nothing younger passes; a
-- parked key is held without a gap, since one transaction moves the row. The generation tells brokers that
-- deduplicate by id that this is not the message they have seen. One that died of a crash is a suspect still.
create function outbox.redrive_rows(p_seqs bigint[]) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_changed bigint;
begin
    with d as (
        delete from outbox.dead d where d.seq = any (p_seqs) returning d.*
    )
    insert into outbox.waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at,
        published_at, generation, lapses, holds, destination, available_at, failed_at, error_class, last_error)
    select d.seq, d.id, d.topic, d.key, d.payload, d.headers, d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at,
        d.published_at, d.generation + 1, d.lapses, d.key is not null, d.destination, clock_timestamp(), d.failed_at,
        d.error_class, d.last_error
    from d;
    get diagnostics v_changed = row_count;
    return v_changed;
end
$$;
comment on function outbox.redrive_rows(bigint[]) is 'Internal: redrives these messages, under the claim lock.';
revoke execute on function outbox.redrive_rows(bigint[]) from public;

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

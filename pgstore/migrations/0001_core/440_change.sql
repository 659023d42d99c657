-- One batch of an operation on messages, in the caller's transaction: the first one begins the operation, the others
-- name it. The cursor is in the operation's row, so whoever calls may die at any moment and anybody may go on. Seqs up
-- to the one that was last drawn when the operation began are meant, in ascending order: an older message of a key is
-- never changed after a younger one.
create function outbox.change(
    p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate int, p_batch int, p_operation bigint,
    out operation_id bigint,  -- null: a dry run
    out matched      bigint,  -- of the whole operation
    out changed      bigint,
    out held         bigint,  -- and left alone: by a live relay, by its key, under way already, bound to where nobody takes it
    out bare         bigint,  -- without payload, and not replayed
    out more         boolean
)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_rows   constant int := 10000; -- are read for a batch at most
    v_tables text[];
    o        outbox.operation;
    v_latest outbox.operation;
    v_cursor jsonb;
    v_after  bigint;
    v_until  bigint;
    v_limit  bigint;
    v_seqs   bigint[];
    v_held   bigint[] := '{}';
    v_n      bigint := 0;
    v_left   bigint := 0;
    v_bare   bigint := 0;
    v_purged bigint; -- with its partition
    v_table  text;   -- of the batch
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise object_not_in_prerequisite_state using
            message = 'this needs a READ COMMITTED transaction: in any other the snapshot is older than the lock';
    end if;
    if p_batch is null or p_batch not between 1 and 1000 then
        raise invalid_parameter_value using message = format('batch is %s: must be 1 to 1000', coalesce(p_batch::text, 'null'));
    end if;
    if p_rate < 1 then
        raise invalid_parameter_value using message = format('rate is %s: must be 1 or more messages a second, or null', p_rate);
    end if;
    perform outbox.plan_settings();
    if p_operation is null then
        v_tables := outbox.change_tables(p_verb, p_filter);
        select p_verb, p_filter, p_rate, 'running', coalesce(nullif(p_actor, ''), session_user), p_reason, '{}',
               jsonb_build_object('table', v_tables[1], 'seq', 0, 'until', (select s.last_value from outbox.seq s))
        into o.verb, o.filter, o.rate, o.state, o.actor, o.reason, o.counts, o.cursor;
    else
        if p_verb = 'purge' then -- one at a time: dropped partitions do not move the cursor
            perform from outbox.operation x where x.id = p_operation and x.verb = p_verb for update;
        end if;
        select * into o from outbox.operation x where x.id = p_operation;
        if not found or o.verb <> p_verb then
            raise invalid_parameter_value using message = format('there is no operation %s of %s', p_operation, p_verb);
        end if;
        v_tables := outbox.change_tables(p_verb, o.filter);
    end if;
    operation_id := o.id;
    select n.matched, n.changed, n.held, n.bare into matched, changed, held, bare from outbox.change_counts(o.counts) n;
    more := o.state = 'running';
    if not more then
        return;
    end if;

    v_until := (o.cursor ->> 'until')::bigint;
    v_limit := (o.filter ->> 'limit')::bigint;
    v_cursor := o.cursor;
    if v_cursor ->> 'table' = 'partition' then
        v_seqs := '{}';
        v_purged := case when not p_dry_run then outbox.purge_partition(o.filter, coalesce(p_rate, o.rate)) end;
        if v_purged is null then
            v_cursor := v_cursor || '{"table": "archive"}';
        end if;
    end if;
    while v_purged is null loop
        v_after := (v_cursor ->> 'seq')::bigint;
        select p.seqs, p.reached into v_seqs, v_after
        from outbox.change_page(p_verb, v_cursor ->> 'table', o.filter, v_after, v_until, v_rows,
            least(p_batch, coalesce(v_limit - case when p_dry_run then matched else changed end, p_batch))::int) p;
        v_table := v_cursor ->> 'table';
        if v_after is not null then
            v_cursor := v_cursor || jsonb_build_object('seq', v_after);
        elsif v_table <> v_tables[cardinality(v_tables)] then
            v_cursor := v_cursor || jsonb_build_object('seq', 0, 'table', v_tables[array_position(v_tables, v_table) + 1]);
        else
            more := false;
        end if;
        if p_dry_run then
            matched := matched + cardinality(v_seqs);
            select r.held, r.bare into v_left, v_bare from outbox.look_at_rows(p_verb, v_table, v_seqs, o.filter) r;
            held := held + v_left;
            bare := bare + v_bare;
            exit when not more or matched >= least(v_limit, 100000);
        else
            -- A small table, or the end of one, does not deserve a transaction of its own.
            exit when not more or v_seqs <> '{}' or v_after is not null;
        end if;
    end loop;
    if p_dry_run then
        more := more and matched < coalesce(v_limit, matched + 1);
        return;
    end if;

    if current_setting('lock_timeout') = '0' then
        perform set_config('lock_timeout', '10s', true);
    end if;
    if p_verb = 'purge' and (v_purged is not null or v_table = 'archive') then
        -- Relays need not wait for what they do not look at.
        perform pg_advisory_xact_lock(28514, 'outbox.archive'::regclass::oid::int);
    else
        perform outbox.claim_lock();
    end if;
    if p_operation is not null then
        select * into v_latest from outbox.operation x where x.id = p_operation for update;
        if v_latest.cursor <> o.cursor or v_latest.state <> 'running' then -- somebody else went on with it meanwhile
            select n.matched, n.changed, n.held, n.bare into matched, changed, held, bare from outbox.change_counts(v_latest.counts) n;
            more := v_latest.state = 'running';
            return;
        end if;
    end if;
    matched := matched + cardinality(v_seqs) + coalesce(v_purged, 0);
    case p_verb
        when 'redrive' then select r.changed, r.held into v_n, v_left from outbox.redrive_rows(v_seqs, o.filter) r;
        when 'retry' then
            if o.filter ? 'by_route' then
                select r.changed, r.held into v_n, v_left from outbox.reroute_rows(v_seqs, o.filter) r;
            else
                v_n := outbox.retry_rows(v_seqs);
            end if;
        when 'replay' then select r.changed, r.held, r.bare into v_n, v_left, v_bare from outbox.replay_rows(v_seqs, o.filter, false) r;
        when 'purge' then
            select r.changed + coalesce(v_purged, 0), r.held into v_n, v_left from outbox.purge_rows(v_table, v_seqs, o.filter) r;
        when 'discard' then select d.changed, d.held into v_n, v_held from outbox.discard_rows(v_seqs, o.actor, o.reason) d;
    end case;
    changed := changed + v_n;
    held := held + v_left + cardinality(v_held);
    bare := bare + v_bare;
    more := more and changed < coalesce(v_limit, changed + 1);
    if v_held <> '{}' then -- for a discard that waits; a bounded list
        v_cursor := v_cursor || jsonb_build_object('held', (
            select jsonb_agg(h.seq) from (
                select s.value::bigint as seq from jsonb_array_elements_text(v_cursor -> 'held') s(value)
                union select unnest(v_held) limit 1000) h));
    end if;
    o.counts := jsonb_build_object('matched', matched, 'changed', changed, 'held', held)
        || case when bare > 0 then jsonb_build_object('bare', bare) else '{}' end;
    if p_operation is null then
        insert into outbox.operation (verb, filter, cursor, rate, state, actor, reason, counts, finished_at)
        values (o.verb, o.filter, v_cursor, o.rate, case when more then 'running' else 'done' end, o.actor, o.reason,
            o.counts, case when not more then clock_timestamp() end)
        returning id into operation_id;
    else
        update outbox.operation x
        set cursor = v_cursor, counts = o.counts, state = case when more then 'running' else 'done' end,
            finished_at = case when not more then clock_timestamp() end
        where x.id = p_operation;
    end if;
    if v_n > 0 and p_verb <> 'purge' then
        perform outbox.wake_relays();
    end if;
end
$$;
comment on function outbox.change is 'Internal: one batch of an operation.';
revoke execute on function outbox.change from public;

create function outbox.change_counts(p_counts jsonb, out matched bigint, out changed bigint, out held bigint, out bare bigint)
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select coalesce((p_counts ->> 'matched')::bigint, 0), coalesce((p_counts ->> 'changed')::bigint, 0),
           coalesce((p_counts ->> 'held')::bigint, 0), coalesce((p_counts ->> 'bare')::bigint, 0)
$$;
comment on function outbox.change_counts is 'Internal: the counts of an operation.';
revoke execute on function outbox.change_counts from public;

-- The tables that an operation goes through, in this order; partition stands for whole ones of the archive.
create function outbox.change_tables(p_verb text, p_filter jsonb) returns text[]
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select array_agg(t.name order by t.n)
    from (values (1, 'partition', 'purge', '["delivered", "dropped", "expired", "discarded"]'::jsonb),
                 (2, 'archive', 'purge replay', '["delivered", "dropped", "expired", "discarded"]'),
                 (3, 'message', 'discard', '["ready"]'), (4, 'waiting', 'discard retry', '["waiting"]'),
                 (5, 'dead', 'discard redrive purge', '["dead"]')) t(n, name, verbs, states)
    where p_verb = any (string_to_array(t.verbs, ' '))
      and (not p_filter ? 'states' or exists (select from jsonb_array_elements_text(t.states) s(value) where p_filter -> 'states' ? s.value))
      and not (t.name = 'message' and p_filter ? 'destination') -- ready messages are bound to none
$$;
comment on function outbox.change_tables is 'Internal: where an operation looks.';
revoke execute on function outbox.change_tables from public;

-- What a dry run says about messages that would be left alone.
create function outbox.look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, out held bigint, out bare bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    held := 0;
    bare := 0;
    if p_verb = 'redrive' and not p_filter ? 'by_route' then
        held := cardinality(outbox.untaken_rows(p_seqs));
    elsif p_verb = 'discard' or p_filter ? 'by_route' then
        held := (select count(*) from unnest(p_seqs) s(seq) where s.seq in (
            select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq)
            where c.relay in (select r.id from outbox.relay r where r.lease_until >= clock_timestamp())));
    elsif p_verb = 'purge' and p_table = 'dead' and not (p_filter -> 'holding')::boolean then
        held := (select count(*) from outbox.dead d where d.seq = any (p_seqs) and d.holds);
    elsif p_verb = 'replay' then
        select r.held, r.bare into held, bare from outbox.replay_rows(p_seqs, p_filter, true) r;
    end if;
end
$$;
comment on function outbox.look_at_rows is 'Internal: what an operation would leave alone.';
revoke execute on function outbox.look_at_rows from public;

create function outbox.wake_relays() returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select pg_notify('outbox', '')
    where coalesce((select s.value from outbox.setting s where s.name = 'notify'), 'publish') <> 'off'
$$;
comment on function outbox.wake_relays() is 'Internal: tells relays that there may be something to claim.';
revoke execute on function outbox.wake_relays() from public;

-- One batch of an operation on messages, in the caller's transaction: the first one begins the operation, the others
-- name it. The cursor is in the operation's row, so whoever calls may die at any moment and anybody may go on. Seqs up
-- to the one that was last drawn when the operation began are meant, in ascending order: an older message of a key is
-- never changed after a younger one.
create function outbox.change(
    p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate int, p_batch int, p_operation bigint,
    out operation_id bigint,  -- null: a dry run
    out matched      bigint,  -- of the whole operation
    out changed      bigint,
    out held         bigint,  -- by a live relay, and left alone
    out more         boolean
)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_rows   constant int := 10000; -- are read for a batch at most
    v_tables constant text[] := case p_verb when 'redrive' then '{dead}' when 'retry' then '{waiting}'
                                            when 'discard' then '{message,waiting,dead}' end;
    o        outbox.operation;
    v_cursor jsonb;
    v_after  bigint;
    v_until  bigint;
    v_limit  bigint;
    v_seqs   bigint[];
    v_held   bigint[] := '{}';
    v_n      bigint := 0;
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
        select p_verb, p_filter, p_rate, 'running', coalesce(nullif(p_actor, ''), session_user), p_reason, '{}',
               jsonb_build_object('table', v_tables[1], 'seq', 0, 'until', (select s.last_value from outbox.seq s))
        into o.verb, o.filter, o.rate, o.state, o.actor, o.reason, o.counts, o.cursor;
    else
        select * into o from outbox.operation x where x.id = p_operation;
        if not found or o.verb <> p_verb then
            raise invalid_parameter_value using message = format('there is no operation %s of %s', p_operation, p_verb);
        end if;
    end if;
    operation_id := o.id;
    matched := coalesce((o.counts ->> 'matched')::bigint, 0);
    changed := coalesce((o.counts ->> 'changed')::bigint, 0);
    held := coalesce((o.counts ->> 'held')::bigint, 0);
    more := o.state = 'running';
    if not more then
        return;
    end if;

    v_until := (o.cursor ->> 'until')::bigint;
    v_limit := (o.filter ->> 'limit')::bigint;
    v_cursor := o.cursor;
    loop
        v_after := (v_cursor ->> 'seq')::bigint;
        select p.seqs, p.reached into v_seqs, v_after
        from outbox.change_page(p_verb, v_cursor ->> 'table', o.filter, v_after, v_until, v_rows,
            least(p_batch, coalesce(v_limit - case when p_dry_run then matched else changed end, p_batch))::int) p;
        if v_after is not null then
            v_cursor := v_cursor || jsonb_build_object('seq', v_after);
        elsif v_cursor ->> 'table' <> v_tables[cardinality(v_tables)] then
            v_cursor := v_cursor || jsonb_build_object('seq', 0,
                'table', v_tables[array_position(v_tables, v_cursor ->> 'table') + 1]);
        else
            more := false;
        end if;
        if p_dry_run then
            matched := matched + cardinality(v_seqs);
            if p_verb = 'discard' then
                held := held + (select count(*) from unnest(v_seqs) s(seq) where s.seq in (
                    select u.seq from outbox.claim c cross join lateral unnest(c.seqs) u(seq)
                    where c.relay in (select r.id from outbox.relay r where r.lease_until >= clock_timestamp())));
            end if;
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
    perform outbox.claim_lock();
    if p_operation is not null and (select x.cursor from outbox.operation x where x.id = p_operation) <> o.cursor then
        more := true;
        return; -- somebody else went on with it meanwhile
    end if;
    matched := matched + cardinality(v_seqs);
    case p_verb
        when 'redrive' then v_n := outbox.redrive_rows(v_seqs);
        when 'retry' then v_n := outbox.retry_rows(v_seqs);
        when 'discard' then select d.changed, d.held into v_n, v_held from outbox.discard_rows(v_seqs, o.actor, o.reason) d;
    end case;
    changed := changed + v_n;
    held := held + cardinality(v_held);
    more := more and changed < coalesce(v_limit, changed + 1);
    if v_held <> '{}' then -- for a discard that waits; a bounded list
        v_cursor := v_cursor || jsonb_build_object('held', (
            select jsonb_agg(h.seq) from (
                select s.value::bigint as seq from jsonb_array_elements_text(v_cursor -> 'held') s(value)
                union select unnest(v_held) limit 1000) h));
    end if;
    o.counts := jsonb_build_object('matched', matched, 'changed', changed, 'held', held);
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
    if v_n > 0 then
        perform outbox.wake_relays();
    end if;
end
$$;
comment on function outbox.change is 'Internal: one batch of an operation.';
revoke execute on function outbox.change from public;

create function outbox.wake_relays() returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select pg_notify('outbox', '')
    where coalesce((select s.value from outbox.setting s where s.name = 'notify'), 'publish') <> 'off'
$$;
comment on function outbox.wake_relays() is 'Internal: tells relays that there may be something to claim.';
revoke execute on function outbox.wake_relays() from public;

-- Discards what a discard has left alone because live relays held it, as far as they do not any more. For the rest the
-- operation waits until the given time: when a relay settles such a message without ending it, it is discarded in
-- the same transaction. Call it again to learn how far it is, and with a wait of 0 to give up.
create function outbox.discard_held(
    operation bigint, wait interval,
    out operation_id bigint, out matched bigint, out changed bigint, out held bigint, out more boolean
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    o      outbox.operation;
    v_seqs bigint[];
    v_n    bigint;
    v_held bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise object_not_in_prerequisite_state using
            message = 'this needs a READ COMMITTED transaction: in any other the snapshot is older than the lock';
    end if;
    perform outbox.plan_settings();
    if current_setting('lock_timeout') = '0' then
        perform set_config('lock_timeout', '10s', true);
    end if;
    perform outbox.claim_lock();
    select * into o from outbox.operation x
    where x.id = discard_held.operation and x.verb = 'discard' and x.state <> 'running' for update;
    if not found then
        raise invalid_parameter_value using message = format('there is no operation %s of discard that has come to its end', operation);
    end if;
    v_seqs := array(select s.value::bigint from jsonb_array_elements_text(o.cursor -> 'held') s(value));
    select d.changed, d.held into v_n, v_held from outbox.discard_rows(v_seqs, o.actor, o.reason) d;
    more := v_held <> '{}' and wait > interval '0';
    update outbox.operation x
    set state = case when more then 'waiting' else 'done' end, finished_at = clock_timestamp(),
        cursor = x.cursor || jsonb_build_object('held', to_jsonb(v_held), 'wait_until', clock_timestamp() + wait),
        counts = x.counts || jsonb_build_object('changed', (x.counts ->> 'changed')::bigint + v_n,
            'held', (x.counts ->> 'held')::bigint - cardinality(v_seqs) + cardinality(v_held))
    where x.id = o.id
    returning x.id, (x.counts ->> 'matched')::bigint, (x.counts ->> 'changed')::bigint, (x.counts ->> 'held')::bigint
    into operation_id, matched, changed, held;
    if v_n > 0 then
        perform outbox.wake_relays();
    end if;
end
$$;
comment on function outbox.discard_held(bigint, interval) is 'Goes on with a discard until relays let go of what they held; returns more while it waits.';
revoke execute on function outbox.discard_held(bigint, interval) from public;

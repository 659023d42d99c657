-- A heartbeat: registers the relay or extends its lease, and gives back the claims that the relay does not
-- know of. A claim of the current beat may still be on its way to the relay; one that was made before the
-- previous heartbeat and is not named now was lost with its answer, and would be renewed for ever. A request that
-- was overtaken on its way names too little and changes nothing.
--
-- p_ahead are relays, with their beat, that the caller has seen with a lease further ahead than twice its length
-- (the clock was stepped back), for as long as a lease: when they have not moved since, they have lapsed. A lease that is
-- believed is not longer than that.
create function outbox.beat(
    p_relay    uuid,
    p_beat     bigint,    -- counts the relay's requests; 0 registers
    p_lease    interval,
    p_known    uuid[],
    p_stopping boolean,
    p_counters jsonb,
    p_faults   jsonb,     -- {"destination": {"misconfigured": bool, "reason": text}}
    p_ahead    jsonb,     -- {"relay": beat}
    p_notify   boolean,
    p_host text, p_pid int, p_version text, p_engine text, p_lanes jsonb, p_digest text,
    p_samples  boolean,
    p_streaming boolean, p_stream jsonb,
    out alive boolean,
    out ahead jsonb,         -- relays to watch: {"relay": [beat, microseconds of its lease]}
    out now   timestamptz
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_before bigint;   -- the beat that was current
    v_given  int;
    v_now    timestamptz := clock_timestamp();
begin
    now := v_now;
    perform outbox.plan_settings(), set_config('synchronous_commit', 'off', true);
    if p_beat = 0 then
        insert into outbox.relay (id, lease_until, lease, beat, host, pid, version, engine, destinations,
            counters, faults, settings_digest, samples)
        values (p_relay, v_now + p_lease, p_lease, 0, p_host, p_pid, p_version, p_engine,
            outbox.lane_regexps(p_lanes), p_counters, p_faults, p_digest, p_samples)
        on conflict (id) do nothing;
    end if;
    select r.beat into v_before from outbox.relay r where r.id = p_relay for update;
    alive := v_before is not null;
    if not alive or v_before > p_beat then
        return;   -- overtaken by a later one, which knew more
    end if;
    update outbox.relay r
    set lease_until = v_now + p_lease, beat = p_beat + 1, counters = p_counters, faults = p_faults, seen_at = v_now,
        streaming = p_streaming, stream = p_stream
    where r.id = p_relay;

    -- One that is locked is being settled, and has its turn at the next beat.
    update outbox.claim c set relay = null
    where c.id = any (array(
        select g.id from outbox.claim g
        where g.relay = p_relay and (g.beat < v_before or p_stopping) and g.token <> all (coalesce(p_known, '{}'))
        for update skip locked));
    get diagnostics v_given = row_count;
    -- A stopping relay that names a token leaves a handler behind that ignores its end: the lease of that
    -- message is left to lapse.
    if p_stopping and cardinality(coalesce(p_known, '{}')) = 0 then
        delete from outbox.relay r where r.id = p_relay;
    end if;
    if p_notify and v_given > 0 then
        perform pg_notify('outbox', '');
    end if;

    delete from outbox.relay r
    where r.id <> p_relay and r.lease_until > v_now + 2 * r.lease and (p_ahead ->> r.id::text)::bigint = r.beat;
    select jsonb_object_agg(r.id, jsonb_build_array(r.beat, (extract(epoch from r.lease) * 1000000)::bigint)) into ahead
    from outbox.relay r where r.id <> p_relay and r.lease_until > v_now + 2 * r.lease;
end
$$;


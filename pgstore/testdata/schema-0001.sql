-- made by go test ./pgstore -run TestRecordedSchema -record-schema
-- migrations: 05b051705a6e66bcadf129970fd5842c4fcdfa85ec2dbae053aece521ef26524
--
-- PostgreSQL database dump
--


-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: outbox; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA outbox;


--
-- Name: SCHEMA outbox; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON SCHEMA outbox IS 'Transactional outbox: messages on their way from this database to their destinations.';


--
-- Name: choice; Type: TYPE; Schema: outbox; Owner: -
--

CREATE TYPE outbox.choice AS (
	floor bigint,
	scanned integer,
	yielded integer,
	due_at timestamp with time zone,
	due_seq bigint,
	cut boolean,
	misfit boolean,
	skipped_keys text[],
	blocked_keys text[],
	ended_keys text[],
	foreign_ids bigint[],
	lost_last bigint,
	lost bigint[],
	lapses integer,
	seqs bigint[],
	hashes integer[],
	relisted bigint[],
	rehashed integer[],
	alone bigint[],
	alone_hashes integer[],
	alone_lapses integer,
	streamed bigint[],
	absent bigint[],
	snapshot text
);


--
-- Name: add_partition(timestamp with time zone, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.add_partition(p_now timestamp with time zone, p_granularity text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET lock_timeout TO '100ms'
    AS $$
declare
    v_until constant timestamptz := "outbox".partition_bound(p_now, p_granularity, 3);
    v_lower timestamptz;
    v_upper timestamptz;
    v_name  text;
begin
    if not pg_try_advisory_xact_lock(28514, '"outbox".archive'::regclass::oid::int) then
        return null;
    end if;
    -- Where the partition of now begins, or may begin.
    select coalesce(max(p.lower) filter (where p.lower <= p_now and p.upper > p_now),
                    greatest("outbox".partition_bound(p_now, p_granularity, 0), max(p.upper) filter (where p.upper <= p_now)))
    into v_lower
    from "outbox".partitions() p;
    loop
        select p.upper into v_upper from "outbox".partitions() p where p.lower <= v_lower and p.upper > v_lower;
        if not found then
            select least("outbox".partition_bound(v_lower, p_granularity, 1), min(p.lower)) into v_upper
            from "outbox".partitions() p where p.lower > v_lower;
            v_name := format('archive_%s_%s', to_char(v_lower, 'YYYYMMDD'), to_char(v_upper, 'YYYYMMDD'));
            exit when v_lower >= v_until or to_regclass(format('%I.%I', 'outbox', v_name)) is null;
        end if;
        v_lower := v_upper;
        if v_lower >= v_until then
            return null;
        end if;
    end loop;
    if v_lower >= v_until then
        return null;
    end if;

    execute format('create table %I.%I (like %I.archive including all)', 'outbox', v_name, 'outbox');
    perform "outbox".move_from_default(v_name, v_lower, v_upper);
    -- Nothing is added from here on; the first move did most of it without a lock.
    lock table "outbox".archive_default in access exclusive mode;
    perform "outbox".move_from_default(v_name, v_lower, v_upper);
    execute format('alter table %I.archive attach partition %I.%I for values from (%L) to (%L)', 'outbox', 'outbox', v_name, v_lower, v_upper);
    return v_name;
end
$$;


--
-- Name: FUNCTION add_partition(p_now timestamp with time zone, p_granularity text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.add_partition(p_now timestamp with time zone, p_granularity text) IS 'Makes one partition of the archive that is missing ahead of a time, and returns its name.';


--
-- Name: archive_rows(bigint[], text[], text[], text[], text, boolean, timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.archive_rows(p_seqs bigint[], p_outcomes text[], p_details text[], p_destinations text[], p_actor text, p_payload boolean, p_now timestamp with time zone, OUT ended bigint, OUT refused text) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    v_patience constant text := current_setting('lock_timeout');
    v_n        bigint;
begin
    begin
        perform set_config('lock_timeout', '500ms', true);
        with o as (
            select * from unnest(p_seqs, p_outcomes, p_details, p_destinations) o(seq, outcome, detail, destination)
        ), m as (
            delete from "outbox".message m where m.seq = any (p_seqs) returning m.*
        ), w as (
            delete from "outbox".waiting w where w.seq = any (p_seqs) returning w.*
        ), d as (
            delete from "outbox".dead d where p_actor is not null and d.seq = any (p_seqs) returning d.*
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
        insert into "outbox".archive (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at,
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
    delete from "outbox".message m where m.seq = any (p_seqs);
    get diagnostics ended = row_count;
    delete from "outbox".waiting w where w.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    ended := ended + v_n;
    if p_actor is not null then
        delete from "outbox".dead d where d.seq = any (p_seqs);
        get diagnostics v_n = row_count;
        ended := ended + v_n;
    end if;
end
$$;


--
-- Name: FUNCTION archive_rows(p_seqs bigint[], p_outcomes text[], p_details text[], p_destinations text[], p_actor text, p_payload boolean, p_now timestamp with time zone, OUT ended bigint, OUT refused text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.archive_rows(p_seqs bigint[], p_outcomes text[], p_details text[], p_destinations text[], p_actor text, p_payload boolean, p_now timestamp with time zone, OUT ended bigint, OUT refused text) IS 'Internal: ends messages and keeps them in the archive.';


--
-- Name: beat(uuid, bigint, interval, uuid[], boolean, jsonb, jsonb, jsonb, boolean, text, integer, text, text, jsonb, text, boolean, boolean, jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.beat(p_relay uuid, p_beat bigint, p_lease interval, p_known uuid[], p_stopping boolean, p_counters jsonb, p_faults jsonb, p_ahead jsonb, p_notify boolean, p_host text, p_pid integer, p_version text, p_engine text, p_lanes jsonb, p_digest text, p_samples boolean, p_streaming boolean, p_stream jsonb, OUT alive boolean, OUT ahead jsonb, OUT now timestamp with time zone) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_before bigint;   -- the beat that was current
    v_given  int;
    v_now    timestamptz := clock_timestamp();
begin
    now := v_now;
    perform "outbox".plan_settings(), set_config('synchronous_commit', 'off', true);
    if p_beat = 0 then
        insert into "outbox".relay (id, lease_until, lease, beat, host, pid, version, engine, destinations,
            counters, faults, settings_digest, samples)
        values (p_relay, v_now + p_lease, p_lease, 0, p_host, p_pid, p_version, p_engine,
            "outbox".lane_regexps(p_lanes), p_counters, p_faults, p_digest, p_samples)
        on conflict (id) do nothing;
    end if;
    select r.beat into v_before from "outbox".relay r where r.id = p_relay for update;
    alive := v_before is not null;
    if not alive or v_before > p_beat then
        return;   -- overtaken by a later one, which knew more
    end if;
    update "outbox".relay r
    set lease_until = v_now + p_lease, beat = p_beat + 1, counters = p_counters, faults = p_faults, seen_at = v_now,
        streaming = p_streaming, stream = p_stream
    where r.id = p_relay;

    -- One that is locked is being settled, and has its turn at the next beat.
    update "outbox".claim c set relay = null
    where c.id = any (array(
        select g.id from "outbox".claim g
        where g.relay = p_relay and (g.beat < v_before or p_stopping) and g.token <> all (coalesce(p_known, '{}'))
        for update skip locked));
    get diagnostics v_given = row_count;
    -- A stopping relay that names a token leaves a handler behind that ignores its end: the lease of that
    -- message is left to lapse.
    if p_stopping and cardinality(coalesce(p_known, '{}')) = 0 then
        delete from "outbox".relay r where r.id = p_relay;
    end if;
    if p_notify and v_given > 0 then
        perform pg_notify('outbox', '');
    end if;

    delete from "outbox".relay r
    where r.id <> p_relay and r.lease_until > v_now + 2 * r.lease and (p_ahead ->> r.id::text)::bigint = r.beat;
    select jsonb_object_agg(r.id, jsonb_build_array(r.beat, (extract(epoch from r.lease) * 1000000)::bigint)) into ahead
    from "outbox".relay r where r.id <> p_relay and r.lease_until > v_now + 2 * r.lease;
end
$$;


--
-- Name: below_mark(uuid, text, bigint, bigint, text[], bigint, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.below_mark(p_relay uuid, p_destination text, p_from bigint, p_mark bigint, p_writers text[], p_floor bigint, p_most integer, OUT backend integer, OUT mark bigint, OUT writers text[], OUT ended boolean, OUT keys text[], OUT lowest bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_take text;
    v_free text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '"outbox".below_mark needs a READ COMMITTED transaction: in any other the snapshot is older than what it reads of locks'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform "outbox".plan_settings();
    backend := pg_backend_pid();
    mark := least(p_floor, (select s.last_value + 1 from "outbox".seq s));
    -- Whoever draws a seq has the lock since before, and gives it up after its rows have become visible; a prepared
    -- transaction has it, too.
    select coalesce(array_agg(distinct l.virtualtransaction), '{}') into writers
    from pg_locks l
    where l.locktype = 'relation' and l.relation = '"outbox".message'::regclass and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database());
    ended := not writers && p_writers;
    if not ended then
        return;
    end if;
    select r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_take, v_free
    from "outbox".relay r where r.id = p_relay;
    with rest as materialized (
        select m.seq, m.key
        from "outbox".message m
        where m.seq >= p_from and m.seq < p_mark and m.key is not null
          and m.topic ~ v_take and (v_free is null or m.topic !~ v_free)
        order by m.seq
        limit 100000
    )
    select case when (select count(*) from rest) < 100000 then coalesce(array_agg(k.key), '{}') end,
           coalesce((select min(r.seq) from rest r), p_mark)
    into keys, lowest
    from (select distinct r.key from rest r limit p_most + 1) k;
end
$$;


--
-- Name: change(text, jsonb, text, text, boolean, integer, integer, bigint); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.change(p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate integer, p_batch integer, p_operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
    v_rows   constant int := 10000; -- are read for a batch at most
    v_tables text[];
    o        "outbox".operation;
    v_latest "outbox".operation;
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
    perform "outbox".plan_settings();
    if p_operation is null then
        v_tables := "outbox".change_tables(p_verb, p_filter);
        select p_verb, p_filter, p_rate, 'running', coalesce(nullif(p_actor, ''), session_user), p_reason, '{}',
               jsonb_build_object('table', v_tables[1], 'seq', 0, 'until', (select s.last_value from "outbox".seq s))
        into o.verb, o.filter, o.rate, o.state, o.actor, o.reason, o.counts, o.cursor;
    else
        if p_verb = 'purge' then -- one at a time: dropped partitions do not move the cursor
            perform from "outbox".operation x where x.id = p_operation and x.verb = p_verb for update;
        end if;
        select * into o from "outbox".operation x where x.id = p_operation;
        if not found or o.verb <> p_verb then
            raise invalid_parameter_value using message = format('there is no operation %s of %s', p_operation, p_verb);
        end if;
        v_tables := "outbox".change_tables(p_verb, o.filter);
    end if;
    operation_id := o.id;
    select n.matched, n.changed, n.held, n.bare into matched, changed, held, bare from "outbox".change_counts(o.counts) n;
    more := o.state = 'running';
    if not more then
        return;
    end if;

    v_until := (o.cursor ->> 'until')::bigint;
    v_limit := (o.filter ->> 'limit')::bigint;
    v_cursor := o.cursor;
    if v_cursor ->> 'table' = 'partition' then
        v_seqs := '{}';
        v_purged := case when not p_dry_run then "outbox".purge_partition(o.filter, coalesce(p_rate, o.rate)) end;
        if v_purged is null then
            v_cursor := v_cursor || '{"table": "archive"}';
        end if;
    end if;
    while v_purged is null loop
        v_after := (v_cursor ->> 'seq')::bigint;
        select p.seqs, p.reached into v_seqs, v_after
        from "outbox".change_page(p_verb, v_cursor ->> 'table', o.filter, v_after, v_until, v_rows,
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
            select r.held, r.bare into v_left, v_bare from "outbox".look_at_rows(p_verb, v_table, v_seqs, o.filter) r;
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
        perform pg_advisory_xact_lock(28514, '"outbox".archive'::regclass::oid::int);
    else
        perform "outbox".claim_lock();
    end if;
    if p_operation is not null then
        select * into v_latest from "outbox".operation x where x.id = p_operation for update;
        if v_latest.cursor <> o.cursor or v_latest.state <> 'running' then -- somebody else went on with it meanwhile
            select n.matched, n.changed, n.held, n.bare into matched, changed, held, bare from "outbox".change_counts(v_latest.counts) n;
            more := v_latest.state = 'running';
            return;
        end if;
    end if;
    matched := matched + cardinality(v_seqs) + coalesce(v_purged, 0);
    case p_verb
        when 'redrive' then select r.changed, r.held into v_n, v_left from "outbox".redrive_rows(v_seqs, o.filter) r;
        when 'retry' then
            if o.filter ? 'by_route' then
                select r.changed, r.held into v_n, v_left from "outbox".reroute_rows(v_seqs, o.filter) r;
            else
                v_n := "outbox".retry_rows(v_seqs);
            end if;
        when 'replay' then select r.changed, r.held, r.bare into v_n, v_left, v_bare from "outbox".replay_rows(v_seqs, o.filter, false) r;
        when 'purge' then
            select r.changed + coalesce(v_purged, 0), r.held into v_n, v_left from "outbox".purge_rows(v_table, v_seqs, o.filter) r;
        when 'discard' then select d.changed, d.held into v_n, v_held from "outbox".discard_rows(v_seqs, o.actor, o.reason) d;
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
        insert into "outbox".operation (verb, filter, cursor, rate, state, actor, reason, counts, finished_at)
        values (o.verb, o.filter, v_cursor, o.rate, case when more then 'running' else 'done' end, o.actor, o.reason,
            o.counts, case when not more then clock_timestamp() end)
        returning id into operation_id;
    else
        update "outbox".operation x
        set cursor = v_cursor, counts = o.counts, state = case when more then 'running' else 'done' end,
            finished_at = case when not more then clock_timestamp() end
        where x.id = p_operation;
    end if;
    if v_n > 0 and p_verb <> 'purge' then
        perform "outbox".wake_relays();
    end if;
end
$$;


--
-- Name: FUNCTION change(p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate integer, p_batch integer, p_operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.change(p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate integer, p_batch integer, p_operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) IS 'Internal: one batch of an operation.';


--
-- Name: change_counts(jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.change_counts(p_counts jsonb, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint) RETURNS record
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select coalesce((p_counts ->> 'matched')::bigint, 0), coalesce((p_counts ->> 'changed')::bigint, 0),
           coalesce((p_counts ->> 'held')::bigint, 0), coalesce((p_counts ->> 'bare')::bigint, 0)
$$;


--
-- Name: FUNCTION change_counts(p_counts jsonb, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.change_counts(p_counts jsonb, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint) IS 'Internal: the counts of an operation.';


--
-- Name: change_filter(uuid[], text, text, text, text, interval, interval, boolean, bigint, text[], text, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.change_filter(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, states text[] DEFAULT NULL::text[], destination text DEFAULT NULL::text, by_route boolean DEFAULT false) RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    filter jsonb := jsonb_strip_nulls(jsonb_build_object(
        'ids', to_jsonb(ids), 'topic', topic, 'key', key, 'class', error_class, 'text', error_text,
        'states', to_jsonb(states), 'destination', destination, 'before', clock_timestamp() - older_than, 'after', clock_timestamp() - newer_than));
begin
    if filter = '{}' and not coalesce(everything, false) then
        raise invalid_parameter_value using message = 'no filter: give one, or everything => true';
    end if;
    if filter <> '{}' and everything then
        raise invalid_parameter_value using message = 'a filter and everything: give one of them';
    end if;
    if key = '' or error_class = '' or error_text = '' then
        raise invalid_parameter_value using message = 'key, error_class, error_text: must not be empty; null is no filter';
    end if;
    if topic !~ '^(([A-Za-z0-9_-]+|\*)\.)*([A-Za-z0-9_-]+|\*|>)$' then
        raise invalid_parameter_value using message = format('topic %L: must be a topic or a pattern such as orders.*.created or orders.>', topic);
    end if;
    if states = '{}' then
        raise invalid_parameter_value using message = 'states: must not be empty; null is no filter';
    end if;
    if destination !~ '^[a-z0-9_-]{1,64}$' then
        raise invalid_parameter_value using message = format('destination %L: must be 1 to 64 of the characters a-z 0-9 _ -', destination);
    end if;
    if destination is not null and states <@ '{ready}' then
        raise invalid_parameter_value using message = 'destination: ready messages are bound to none';
    end if;
    if by_route and destination is null then
        raise invalid_parameter_value using message = 'by_route: needs the destination that the messages are bound to';
    end if;
    if older_than < interval '0' or newer_than < interval '0' then
        raise invalid_parameter_value using message = 'an age must not be negative';
    end if;
    if max_messages < 1 then
        raise invalid_parameter_value using message = format('max_messages is %s: must be 1 or more', max_messages);
    end if;
    if ids is not null then
        filter := filter || jsonb_build_object('seqs',
            -- What has ended is not looked for in the message table.
            (with archived as materialized (select a.id, a.seq from "outbox".archive a where a.id = any (ids))
             select coalesce(jsonb_agg(l.seq order by l.seq), '[]') from (
                 select a.seq from archived a
                 union select w.seq from "outbox".waiting w where w.id = any (ids)
                 union select d.seq from "outbox".dead d where d.id = any (ids)
                 union select x.seq from "outbox".locate(array(select unnest(ids) except select a.id from archived a)) x) l));
    end if;
    if max_messages is not null then
        filter := filter || jsonb_build_object('limit', max_messages);
    end if;
    if by_route then
        filter := filter || '{"by_route": true}';
    end if;
    return filter;
end
$_$;


--
-- Name: FUNCTION change_filter(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, states text[], destination text, by_route boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.change_filter(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, states text[], destination text, by_route boolean) IS 'Internal: the filter of an operation.';


--
-- Name: change_page(text, text, jsonb, bigint, bigint, integer, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.change_page(p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows integer, p_limit integer, OUT seqs bigint[], OUT reached bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_failed constant boolean := p_table in ('waiting', 'dead');
begin
    execute format($query$
        with page as materialized (
            select t.* from (
                select t.seq, t.topic, t.key, %s as class, %s as text, %s as at, %s as outcome, %s as destination, %s as open
                from %s t
                where t.seq > $1 and t.seq <= $2 %s %s %s
                order by %s t.seq
                fetch first $3 rows with ties
            ) t
        ), found as materialized (
            select p.seq
            from page p
            where p.open
              and ($5 is null or p.topic ~ $5)
              and ($6 is null or p.key = $6)
              and ($7 is null or p.class = $7)
              and ($8 is null or position($8 in p.text) > 0)
              and ($9 is null or p.at <= $9)
              and ($10 is null or p.at > $10)
              and ($12 is null or p.outcome = any ($12))
              and ($13 is null or p.destination = $13)
            limit $4
        )
        select (select coalesce(array_agg(distinct f.seq), '{}') from found f),
               case when (select count(*) from found) = $4 then (select max(f.seq) from found f)
                    when (select count(*) from page) >= $3 then (select max(p.seq) from page p) end$query$,
        case when v_failed then 't.error_class' else 'null::text' end,
        case when v_failed then 't.last_error' when p_table = 'archive' then 't.detail' else 'null::text' end,
        case p_table when 'dead' then 't.died_at' when 'archive' then 't.ended_at' else 't.published_at' end,
        case when p_table = 'archive' then 't.outcome' else 'null::text' end,
        case when v_failed then 't.destination' else 'null::text' end,
        -- A scheduled message keeps its time unless it is named. One that gets another destination may be due long since.
        case when p_verb = 'retry' and not p_filter ? 'by_route' then 't.available_at > clock_timestamp() and (t.attempts > 0 or $11 is not null)' else 'true' end,
        case p_table when 'message' then '"outbox".message' when 'waiting' then '"outbox".waiting' when 'dead' then '"outbox".dead' when 'archive' then '"outbox".archive' end,
        case when p_filter ? 'seqs' then 'and t.seq = any ($11)' end,
        -- Leaves partitions out.
        case when p_table = 'archive' then concat(case when p_filter ? 'before' then 'and t.ended_at <= $9 ' end,
                                                  case when p_filter ? 'after' then 'and t.ended_at > $10' end) end,
        case when p_filter ? 'key' and p_table = 'message' then 'and t.key between $6 and $6' end,
        -- In the order of message_key; with an equality the planner may walk the primary key in search of the key.
        case when p_filter ? 'key' and p_table = 'message' then 't.key,' end)
    into seqs, reached
    using p_after, p_until, p_rows, p_limit,
        "outbox".topics_regexp(case when p_filter ? 'topic'
            then jsonb_build_array(jsonb_build_object('in', true, 'pattern', p_filter ->> 'topic')) end),
        p_filter ->> 'key', p_filter ->> 'class', p_filter ->> 'text',
        (p_filter ->> 'before')::timestamptz, (p_filter ->> 'after')::timestamptz,
        case when p_filter ? 'seqs' then array(select s.value::bigint from jsonb_array_elements_text(p_filter -> 'seqs') s(value)) end,
        case when p_table = 'archive' then array(select s.value from jsonb_array_elements_text(p_filter -> 'states') s(value)) end,
        case when v_failed then p_filter ->> 'destination' end;
end
$_$;


--
-- Name: FUNCTION change_page(p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows integer, p_limit integer, OUT seqs bigint[], OUT reached bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.change_page(p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows integer, p_limit integer, OUT seqs bigint[], OUT reached bigint) IS 'Internal: the next messages that an operation means.';


--
-- Name: change_tables(text, jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.change_tables(p_verb text, p_filter jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select array_agg(t.name order by t.n)
    from (values (1, 'partition', 'purge', '["delivered", "dropped", "expired", "discarded"]'::jsonb),
                 (2, 'archive', 'purge replay', '["delivered", "dropped", "expired", "discarded"]'),
                 (3, 'message', 'discard', '["ready"]'), (4, 'waiting', 'discard retry', '["waiting"]'),
                 (5, 'dead', 'discard redrive purge', '["dead"]')) t(n, name, verbs, states)
    where p_verb = any (string_to_array(t.verbs, ' '))
      and (not p_filter ? 'states' or exists (select from jsonb_array_elements_text(t.states) s(value) where p_filter -> 'states' ? s.value))
      and not (t.name = 'message' and p_filter ? 'destination') -- ready messages are bound to none
$$;


--
-- Name: FUNCTION change_tables(p_verb text, p_filter jsonb); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.change_tables(p_verb text, p_filter jsonb) IS 'Internal: where an operation looks.';


--
-- Name: check_pause(text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.check_pause(topic text, destination text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
begin
    if (topic is null) = (destination is null) then
        raise invalid_parameter_value using message = 'give a topic or a destination, one of them';
    end if;
    if topic !~ '^(([A-Za-z0-9_-]+|\*)\.)*([A-Za-z0-9_-]+|\*|>)$' or octet_length(topic) > 255 then
        raise invalid_parameter_value using message = format('topic %L: must be a topic or a pattern such as orders.*.created or orders.>, at most 255 bytes', left(topic, 80));
    end if;
    if destination !~ '^[a-z0-9_-]{1,64}$' then
        raise invalid_parameter_value using message = format('destination %L: must be 1 to 64 of the characters a-z 0-9 _ -', destination);
    end if;
    if current_setting('lock_timeout') = '0' then
        perform set_config('lock_timeout', '10s', true);
    end if;
end
$_$;


--
-- Name: FUNCTION check_pause(topic text, destination text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.check_pause(topic text, destination text) IS 'Internal: refuses what cannot be paused.';


--
-- Name: check_times(interval, timestamp with time zone, interval, timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.check_times(delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if delay is not null and deliver_at is not null then
        raise invalid_parameter_value using message = 'give delay or deliver_at, not both';
    end if;
    if ttl is not null and expires_at is not null then
        raise invalid_parameter_value using message = 'give ttl or expires_at, not both';
    end if;
    if delay < interval '0' then
        raise invalid_parameter_value using message = format('delay is %s: must not be negative', delay);
    end if;
    if ttl < interval '0' then
        raise invalid_parameter_value using message = format('ttl is %s: must not be negative', ttl);
    end if;
end
$$;


--
-- Name: FUNCTION check_times(delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.check_times(delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone) IS 'Internal: refuses times that contradict each other.';


--
-- Name: choose(timestamp with time zone, text, text, text, text, boolean, boolean, bigint, bigint, text, integer, bigint, boolean, integer, boolean, timestamp with time zone, bigint, integer, text[], bigint[], bigint[], integer, bigint, bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.choose(v_now timestamp with time zone, v_take text, v_dest text, v_free text, v_stop text, mixed boolean, v_suspect boolean, low bigint, v_floor bigint, p_destination text, p_limit integer, p_bytes bigint, p_oversized boolean, p_window integer, p_window_only boolean, p_due_at timestamp with time zone, p_due_seq bigint, p_due_rows integer, p_keys text[], p_seqs bigint[], p_foreign bigint[], p_lost integer, p_lost_after bigint, p_stream bigint[]) RETURNS outbox.choice
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    choice "outbox".choice;
begin
    with
    lost as materialized (
        select l.*
        from (
            select c.id, c.seqs, c.lapses + (c.relay is not null)::int as lapses
            from "outbox".claim c
            where c.id >= low
              and not p_window_only
              and (c.relay is null or c.relay not in (select r.id from "outbox".relay r))
              and c.id <> all (p_foreign)
              and not (v_suspect and c.lapses + (c.relay is not null)::int >= 2)
            order by c.id <= p_lost_after, c.id
            limit p_lost
            for update skip locked
        ) l
        limit 512
    ),
    -- Listed seqs are candidates only here: the locked row's list is the newest, the snapshot's may hold
    -- seqs that were settled since.
    back as materialized (
        select l.id as claim, l.lapses, s.seq, m.topic, m.bytes, m.scheduled,
               m.topic ~ v_take and (m.destination is null or m.destination = p_destination) as mine,
               case when m.topic ~ v_free then null else m.key end as key
        from lost l
        cross join lateral unnest(l.seqs) s(seq)
        cross join lateral (
            select m.key, m.topic, octet_length(m.payload) as bytes, false as scheduled, null::text as destination
            from "outbox".message m where m.seq = s.seq
            union all
            select w.key, w.topic, octet_length(w.payload), not w.holds, w.destination
            from "outbox".waiting w where w.seq = s.seq
            limit 1
        ) m
    ),
    -- Scheduled rows hold their key from their first claim on, without saying so in their own row.
    scheduled as materialized (
        select b.key, b.seq from back b where b.scheduled and b.topic ~ v_dest and b.key is not null
    ),
    listed as materialized (select s.seq from "outbox".listed(low) s(seq)),
    held as materialized (
        select k.hash from "outbox".held(low, p_destination, (select coalesce(array_agg(l.id), '{}') from lost l)) k(hash)
    ),
    -- Of each key the oldest suspect, with the oldest undelivered message before it. Those that have crashed come
    -- first, they are not delivered; those that killed a relay last.
    suspects as materialized (
        select s.*, hashtext(s.key) in (select h.hash from held h) as held,
               least((select m.seq from "outbox".message m
                      where m.key = s.key and m.seq < s.seq
                        and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                      order by m.seq limit 1),
                     (select o.seq from "outbox".waiting o
                      where o.key = s.key and o.holds and o.seq < s.seq
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from "outbox".dead o
                      where o.key = s.key and o.holds and o.seq < s.seq
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select min(o.seq) from scheduled o where o.key = s.key and o.seq < s.seq)) as older
        from (
            select u.*, row_number() over (partition by u.key order by u.seq) as place
            from (
                select b.seq, b.key, b.lapses, b.bytes, b.topic, case when b.lapses > 2 then 0 else 1 end as turn
                from back b
                where b.lapses >= 2 and b.mine
                union all
                select w.seq, case when w.topic ~ v_free then null else w.key end, w.lapses, w.bytes, w.topic, 2
                from (
                    select w.seq, w.key, w.lapses, octet_length(w.payload) as bytes, w.topic, w.destination
                    from "outbox".waiting w
                    where w.lapses > 0 and w.available_at <= v_now
                    order by w.available_at, w.seq
                    limit 1000
                ) w
                where not v_suspect and not p_window_only
                  and (w.destination is null or w.destination = p_destination)
                  and w.topic ~ v_take and w.seq not in (select l.seq from listed l)
            ) u
        ) s
        where s.key is null or s.place = 1
    ),
    suspect as materialized (
        select s.seq, s.key, s.lapses, s.bytes
        from suspects s
        where s.held is not true and s.older is null and (v_stop is null or s.topic !~ v_stop)
        order by s.turn, s.seq
        limit 1
    ),
    -- Keys that are not for the other candidates: held, or a suspect is their head.
    reserved as materialized (
        select h.hash from held h
        union all
        select hashtext(s.key) from suspects s where s.key is not null and s.older is null
    ),
    -- A window over the due rows, since any number of them may belong to others, be paused, or stand behind a head
    -- that waits. The next claim goes on after it, and begins anew at the end.
    ripe as materialized (
        select r.*
        from (
            select w.available_at, w.seq, w.key, w.topic, w.destination, w.lapses, octet_length(w.payload) as bytes
            from "outbox".waiting w
            where w.available_at <= v_now and (w.available_at, w.seq) > (p_due_at, p_due_seq)
              and not p_window_only
            order by w.available_at, w.seq
            limit p_due_rows
        ) r
        limit 4000
    ),
    -- Rows behind a head that cannot be taken now are left out before the limit: they would fill it, for as long
    -- as that head waits. (A head that is due itself and finds no room here joins by "head".) Such a head is looked
    -- for once for each key, from its last row here: a redrive makes any number of rows of a key due, and a walk
    -- from each of them over all before it would take the square of that. Behind a thousand that can be taken it does
    -- not matter. No join with the keys: without statistics it would be a loop.
    due as materialized (
        select d.seq, d.key, d.topic, d.bytes
        from (
            select w.seq, w.key, w.topic, w.bytes
            from (
                select l.*, max(l.ends) over (partition by l.line) as block
                from (
                    select n.*, case
                               when n.line is not null and n.place = 1
                                   and hashtext(n.line) not in (select h.hash from reserved h)
                               then least(
                                   9223372036854775807,
                                   (select o.seq
                                    from (select o.seq, o.available_at, o.lapses, o.topic
                                          from "outbox".waiting o
                                          where o.key = n.line and o.holds and o.seq < n.seq
                                            and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                                            and (o.destination is null or o.destination = p_destination)
                                          order by o.seq limit 1000) o
                                    where o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop
                                    order by o.seq limit 1),
                                   (select o.seq from "outbox".dead o
                                    where o.key = n.line and o.holds and o.seq < n.seq
                                      and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                                      and (o.destination is null or o.destination = p_destination)
                                    order by o.seq limit 1),
                                   (select case when m.topic ~ v_take and (v_stop is null or m.topic !~ v_stop) then null else m.seq end
                                    from "outbox".message m
                                    where m.key = n.line and m.seq < n.seq
                                      and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                                    order by m.seq limit 1))
                               end as ends
                    from (
                        select r.*, row_number() over (partition by r.line order by r.seq desc) as place
                        from (
                            select w.*, case when w.topic ~ v_free then null else w.key end as line
                            from ripe w
                            where (w.destination is null or w.destination = p_destination)
                              and w.topic ~ v_take
                              and (v_stop is null or w.topic !~ v_stop)
                              and w.lapses = 0
                              and w.seq not in (select l.seq from listed l)
                        ) r
                    ) n
                ) l
            ) w
            where w.line is null or w.seq < w.block
            order by w.available_at, w.seq
            limit greatest(p_limit / 2, 1)
        ) d
        limit 1000
    ),
    offered as materialized (
        select m.seq, m.topic, m.bytes
        from (select distinct u.seq from unnest(p_seqs) u(seq)) s
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from "outbox".message m
            where m.seq = s.seq and m.seq < v_floor and (m.key is null or m.topic ~ v_free)
            limit 1
        ) m
        where not p_window_only
          and m.topic ~ v_take
          and (v_stop is null or m.topic !~ v_stop)
          and m.seq not in (select l.seq from listed l)
    ),
    parked as materialized (
        select k.key, hashtext(k.key) in (select h.hash from reserved h) as held,
               least((select o.seq from "outbox".waiting o
                      where o.key = k.key and o.holds
                        and (o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop)
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from "outbox".dead o
                      where o.key = k.key and o.holds
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1)) as block
        from unnest(p_keys) k(key)
    ),
    continued as materialized (
        select k.key, k.held,
               least(k.block, case when mixed or v_stop is not null then
                   (select m.seq
                    from (select m.seq, m.topic from "outbox".message m
                          where m.key = k.key and m.seq < coalesce(k.block, v_floor)
                            and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                          order by m.seq limit 1000) m
                    where m.topic !~ v_take or m.topic ~ v_stop
                    order by m.seq limit 1)
               end) as block
        from parked k
    ),
    freed as materialized (
        select m.seq, k.key, m.topic, m.bytes
        from continued k
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from "outbox".message m
            where m.key = k.key and m.seq < least(v_floor, k.block)
              and m.topic ~ v_take and (v_free is null or m.topic !~ v_free)
              and m.seq not in (select l.seq from listed l)
            order by m.seq
            limit greatest(p_limit / cardinality(p_keys), 1)
        ) m
        where not k.held and not p_window_only
        limit 2000
    ),
    picked as materialized (
        select m.seq, m.topic, case when m.topic ~ v_free then null else m.key end as key, octet_length(m.payload) as bytes
        from "outbox".message m
        where m.seq = any (p_stream)
        limit 10000
    ),
    win as materialized (
        select w.seq, w.topic, w.key, w.bytes, w.mine,
               w.mine and (v_stop is null or w.topic !~ v_stop)
                   and w.seq not in (select l.seq from listed l)
                   and (w.key is null or hashtext(w.key) not in (select h.hash from reserved h)) as eligible
        from (
            (select m.seq, m.topic, case when m.topic ~ v_free then null else m.key end as key,
                    octet_length(m.payload) as bytes, m.topic ~ v_take as mine
             from "outbox".message m
             where m.seq >= v_floor
             order by m.seq
             limit p_window)
            union all
            select p.seq, p.topic, p.key, p.bytes, p.topic ~ v_take
            from picked p -- but for what is a candidate already: rows of continued keys, and what is offered
            where (p.key is null or p.key <> all (p_keys)) and p.seq not in (select u.seq from unnest(p_seqs) u(seq))
        ) w
        limit 10000
    ),
    -- Keys whose head nobody may take now, of a window that has grown because the last one brought little: their
    -- rows would fill the batch again and again. Keys with few rows here could not, and need not be looked for.
    barred as materialized (
        select k.key
        from (
            select w.key, min(w.seq) as lo from win w
            where p_window > p_limit and w.eligible and w.key is not null
            group by w.key
            having count(*) > 3
        ) k
        where (select o.seq from "outbox".waiting o
               where o.key = k.key and o.holds and o.seq < k.lo
                 and (o.available_at > v_now or o.lapses > 0 or o.topic !~ v_take or o.topic ~ v_stop)
                 and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                 and (o.destination is null or o.destination = p_destination)
               order by o.seq limit 1) is not null
           or (select o.seq from "outbox".dead o
               where o.key = k.key and o.holds and o.seq < k.lo
                 and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                 and (o.destination is null or o.destination = p_destination)
               order by o.seq limit 1) is not null
    ),
    open as materialized (
        select w.seq, w.key, w.bytes from win w
        where w.eligible and (w.key is null or w.key not in (select b.key from barred b))
    ),
    cand as materialized (
        select c.source, c.seq, c.key, c.lapses, c.bytes,
               sum(c.bytes) over w <= p_bytes or p_oversized and row_number() over w = 1 as fits
        from (
            select c.*
            from (
                select 0 as source, b.seq, b.key, b.lapses, b.bytes
                from back b
                where b.mine and b.lapses < 2 and (v_stop is null or b.topic !~ v_stop)
                  and (b.key is null or hashtext(b.key) not in (select h.hash from reserved h))
                union all
                select -1, s.seq, s.key, s.lapses, s.bytes from suspect s
                union all
                select 1, d.seq, case when d.topic ~ v_free then null else d.key end, 0, d.bytes from due d
                union all
                select 2, o.seq, null, 0, o.bytes from offered o
                union all
                select 3, f.seq, f.key, 0, f.bytes from freed f where v_stop is null or f.topic !~ v_stop
                union all
                select 4, w.seq, w.key, 0, w.bytes from open w
            ) c
            order by c.source, c.seq
            limit p_limit
        ) c
        window w as (order by c.source, c.seq)
        limit 1000
    ),
    taken as materialized (select c.* from cand c where c.fits),
    -- Fresh messages never enter a claim of messages whose relay died: they would share its lapses. So a key
    -- that has both takes only the run of the kind of its head.
    bykey as materialized (
        select k.key, k.seqs, least(k.fresh, k.lapsed) as lo, k.hi, k.bytes,
               k.lapsed is not null and (k.fresh is null or k.lapsed < k.fresh) as relapsed,
               case when k.lapsed is not null and k.fresh is not null then greatest(k.fresh, k.lapsed) end as other
        from (
            select t.key, array_agg(t.seq) as seqs, max(t.seq) as hi, sum(t.bytes) as bytes,
                   min(t.seq) filter (where t.lapses = 0) as fresh, min(t.seq) filter (where t.lapses > 0) as lapsed
            from taken t
            where t.key is not null and t.source >= 0
            group by t.key
        ) k
    ),
    -- Scalar subqueries, and limits around every parameter limit: any join or NOT EXISTS here becomes a scan
    -- of the table as soon as statistics are wrong.
    probe as materialized (
        select b.*,
               (select m.seq from "outbox".message m
                where m.key = b.key and m.seq < b.hi and m.seq <> all (b.seqs)
                  and m.topic ~ v_dest and (v_free is null or m.topic !~ v_free)
                order by m.seq limit 1) as ready,
               least((select o.seq from "outbox".waiting o
                      where o.key = b.key and o.holds and o.seq < b.hi and o.seq <> all (b.seqs)
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select o.seq from "outbox".dead o
                      where o.key = b.key and o.holds and o.seq < b.hi
                        and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                        and (o.destination is null or o.destination = p_destination)
                      order by o.seq limit 1),
                     (select min(o.seq) from scheduled o where o.key = b.key and o.seq <> all (b.seqs))) as block
        from bykey b
    ),
    head as materialized (
        select p.key, m.seq, least(p.lo, p.ready) as until, cardinality(p.seqs) as room, p.bytes - m.bytes as bytes
        from probe p
        cross join lateral (
            select m.seq, m.topic, octet_length(m.payload) as bytes
            from "outbox".message m where m.seq = p.ready and (p.block is null or m.seq < p.block)
            union all
            select w.seq, w.topic, octet_length(w.payload)
            from "outbox".waiting w
            where w.seq = p.block and (p.ready is null or w.seq < p.ready) and w.available_at <= v_now and w.lapses = 0
            limit 1
        ) m
        where m.seq < p.lo
          and m.seq not in (select l.seq from listed l)
          and m.topic ~ v_take and (v_stop is null or m.topic !~ v_stop)
          and (m.bytes <= p.bytes or m.bytes <= p_bytes - (select sum(t.bytes) from taken t))
    ),
    -- The head's followers in waiting go with it, in the place of as many candidates, up to the first that anything is
    -- before: of many due rows of a key the pass over them would meet only some behind the head.
    followers as materialized (
        select h.key, f.seq
        from head h
        cross join lateral (
            select f.seq, bool_and(f.takeable) over w as open, row_number() over w as place, sum(f.bytes) over w as bytes
            from (
                select o.seq, octet_length(o.payload) as bytes,
                       o.available_at <= v_now and o.lapses = 0 and o.topic ~ v_take
                           and (v_stop is null or o.topic !~ v_stop)
                           and o.seq not in (select l.seq from listed l) as takeable
                from "outbox".waiting o
                where o.key = h.key and o.holds and o.seq > h.seq
                  and o.seq < least(
                      h.until,
                      (select d.seq from "outbox".dead d
                       where d.key = h.key and d.holds and d.seq > h.seq
                         and d.topic ~ v_dest and (v_free is null or d.topic !~ v_free)
                         and (d.destination is null or d.destination = p_destination)
                       order by d.seq limit 1),
                      (select min(s.seq) from scheduled s where s.key = h.key and s.seq > h.seq))
                  and o.topic ~ v_dest and (v_free is null or o.topic !~ v_free)
                  and (o.destination is null or o.destination = p_destination)
                order by o.seq
                limit 1000
            ) f
            window w as (order by f.seq)
        ) f
        where f.open and f.place < h.room and f.bytes <= h.bytes
    ),
    ok as materialized (
        select t.seq, null::int as hash, t.lapses > 0 as relapsed
        from taken t where t.key is null and t.source >= 0
        union all
        select s.seq, hashtext(p.key), p.relapsed
        from probe p
        cross join lateral unnest(p.seqs) s(seq)
        where (p.ready is null or s.seq < p.ready)
          and (p.block is null or s.seq < p.block)
          and (p.other is null or s.seq < p.other)
        union all
        select h.seq, hashtext(h.key), false from head h
        union all
        select f.seq, hashtext(f.key), false from followers f
    ),
    seen as materialized (
        select r.available_at, r.seq
        from ripe r
        where case when (select count(*) from due) >= greatest(p_limit / 2, 1) then r.seq in (select d.seq from due d)
                   else p_due_rows > 0 and (select count(*) from ripe) >= p_due_rows end
        order by r.available_at desc, r.seq desc
        limit 1
    ),
    edge as materialized (
        select coalesce(
            case when p_stream is not null then v_floor end,
            (select min(w.seq) from open w
             where w.seq > coalesce((select max(t.seq) from taken t where t.source = 4), 0)),
            (select max(w.seq) + 1 from win w),
            v_floor) as floor
    )
    select (select e.floor from edge e),
           (select count(*) from win),
           (select count(*) from open)
               - (select count(*) from taken t where t.source = 4 and t.seq not in (select o.seq from ok o)),
           (select s.available_at from seen s),
           (select s.seq from seen s),
           coalesce((select count(*) >= p_limit or not bool_and(c.fits) from cand c), false)
               or (select count(*) from lost) >= p_lost,
           (select count(*) from cand) > 0 and (select count(*) from taken) = 0,
           (select array_agg(distinct w.key) from win w
            where w.mine and w.key is not null and w.seq < (select e.floor from edge e)
              and w.seq not in (select o.seq from ok o) and w.seq not in (select l.seq from listed l)),
           (select array_agg(k.key) from continued k where not k.held and k.block < v_floor),
           (select array_agg(k.key) from continued k
            where not k.held and not p_window_only and k.block is null
              and k.key not in (
                  select f.key from freed f
                  group by f.key
                  having count(*) >= greatest(p_limit / cardinality(p_keys), 1)
                      or not bool_and(f.seq in (select o.seq from ok o)))),
           (select array_agg(l.id) filter (where l.id in (select b.claim from back b)
                and l.id not in (select b.claim from back b where b.mine)) from lost l),
           (select max(l.id) from lost l),
           (select array_agg(l.id) from lost l),
           (select max(case when b.seq in (select o.seq from ok o where o.relapsed) then b.lapses end) from back b),
           l.seqs, l.hashes, l.relisted, l.rehashed,
           (select array_agg(t.seq) from taken t where t.source = -1),
           (select array_agg(hashtext(t.key)) from taken t where t.source = -1),
           (select max(t.lapses) from taken t where t.source = -1),
           case when p_stream is not null then
               (select array_agg(t.seq) from taken t where t.source = 4 and t.seq in (select o.seq from ok o))
           end,
           (select array_agg(u.seq) from unnest(p_stream) u(seq) where u.seq not in (select p.seq from picked p)),
           case when p_stream is not null then pg_current_snapshot()::text end
    from (
        select array_agg(o.seq) filter (where not o.relapsed) as seqs,
               array_agg(o.hash) filter (where not o.relapsed) as hashes,
               array_agg(o.seq) filter (where o.relapsed) as relisted,
               array_agg(o.hash) filter (where o.relapsed) as rehashed
        from (select o.* from ok o order by o.seq) o
    ) l
    into choice;
    return choice;
end
$$;


--
-- Name: choose_plain(text, text, bigint, bigint, text, integer, bigint, integer, text[], bigint, bigint, text[], bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.choose_plain(v_take text, v_free text, low bigint, v_floor bigint, p_destination text, p_limit integer, p_bytes bigint, p_window integer, p_keys text[], p_base bigint, p_high bigint, p_known text[], p_stream bigint[]) RETURNS outbox.choice
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    choice "outbox".choice;
    v_each int := greatest(p_limit / greatest(cardinality(p_keys), 1), 1);
    v_many boolean := v_floor - p_high > 20000; -- to look at, of which most may be dead
begin
    with
    listed as materialized (select s.seq from "outbox".listed(low) s(seq)),
    held as materialized (select k.hash from "outbox".held(low, p_destination, '{}') k(hash)),
    freed as materialized (
        select m.seq, k.key, hashtext(k.key) as hash, m.bytes
        from unnest(p_keys) k(key)
        cross join lateral (
            select m.seq, octet_length(m.payload) as bytes
            from "outbox".message m
            where m.key = k.key and m.seq >= p_base and m.seq < v_floor
              and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)
              and m.seq not in (select l.seq from listed l)
            order by m.seq
            limit v_each
        ) m
        where hashtext(k.key) not in (select h.hash from held h)
        limit 2000
    ),
    picked as materialized (
        select m.seq, case when m.topic ~ v_free then null else m.key end as key,
               octet_length(m.payload) as bytes,
               v_take = '' or m.topic ~ v_take as mine, m.seq in (select l.seq from listed l) as listed
        from "outbox".message m
        where m.seq = any (p_stream)
        limit 10000
    ),
    win as materialized (
        select w.seq, w.key, w.hash, w.bytes, w.mine, w.listed,
               w.mine and not w.listed and (w.key is null or w.hash not in (select h.hash from held h)) as open
        from (
            select r.*, hashtext(r.key) as hash
            from (
                (select m.seq, case when m.topic ~ v_free then null else m.key end as key,
                        octet_length(m.payload) as bytes,
                        v_take = '' or m.topic ~ v_take as mine, m.seq in (select l.seq from listed l) as listed
                 from "outbox".message m
                 where m.seq >= v_floor
                 order by m.seq
                 limit p_window)
                union all
                select p.* from picked p where p.key is null or p.key <> all (p_keys) -- those are continued
            ) r
            limit 10000
        ) w
    ),
    cand as materialized (
        select c.*
        from (
            select 0 as source, f.seq, f.key, f.hash, f.bytes from freed f
            union all
            select 1, w.seq, w.key, w.hash, w.bytes from win w where w.open
            order by 1, 2
            limit p_limit
        ) c
        limit 1000
    ),
    -- By arrays, which cost one index scan for all keys. A key may have any number of rows there.
    blocked as materialized (
        select b.key
        from (
            select o.key
            from "outbox".waiting o
            where o.key = any (array(select c.key from cand c where c.key is not null and exists (
                      select from "outbox".waiting h where h.key is not null and h.holds)))
              and o.holds
              and (v_take = '' or o.topic ~ v_take) and (v_free is null or o.topic !~ v_free)
              and (o.destination is null or o.destination = p_destination)
            limit 1000
        ) b
        union all
        select b.key
        from (
            select o.key
            from "outbox".dead o
            where o.key = any (array(select c.key from cand c where c.key is not null and exists (
                      select from "outbox".dead h where h.key is not null and h.holds)))
              and o.holds
              and (v_take = '' or o.topic ~ v_take) and (v_free is null or o.topic !~ v_free)
              and (o.destination is null or o.destination = p_destination)
            limit 1000
        ) b
    ),
    below as materialized (
        select m.seq, m.key
        from "outbox".message m
        where not v_many and exists (select from cand c where c.source = 1 and c.key is not null)
          and m.seq >= p_high and m.seq < v_floor and m.key is not null
          and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)
          and m.seq not in (select l.seq from listed l)
        order by m.seq
        limit 2000
    ),
    few as materialized (select not v_many and count(*) < 2000 as few from below),
    -- seqs in order: the continued ones are below the window. One pass over both, since a join of them would be a loop in
    -- a loop. (The planner expects few rows.)
    bykey as materialized (
        select u.key, array_agg(u.seq) filter (where u.source is not null) as seqs,
               min(u.seq) filter (where u.source is not null) as lo, max(u.seq) filter (where u.source is not null) as hi,
               min(u.seq) filter (where u.source is null) as below
        from (
            select c.key, c.seq, c.source
            from cand c
            where c.key is not null and c.key not in (select b.key from blocked b)
            union all
            select b.key, b.seq, null
            from below b
            where b.seq not in (select c.seq from cand c)
        ) u
        group by u.key
        having max(u.source) = 1
           and (not (select f.few from few f) or u.key in (select k.key from unnest(p_known) k(key))
                or min(u.seq) filter (where u.source is null) is not null)
    ),
    -- The first row of the key that is not in its place among the candidates. Where below has all that can be, it is in
    -- there. Elsewhere the key is looked up, by places: a comparison of each row with all would take the square of a long
    -- run. A key that has only continued candidates has no other row up to the last of them.
    late as materialized (
        select l.*
        from (
            select b.*, (select m.seq
                         from (select m.seq, row_number() over (order by m.seq) as place
                               from "outbox".message m
                               where m.key = b.key and m.seq >= p_base and m.seq <= b.hi
                                 and (v_take = '' or m.topic ~ v_take) and (v_free is null or m.topic !~ v_free)) m
                         where m.seq <> b.seqs[m.place]
                         limit 1) as older
            from bykey b
            where not (select f.few from few f) or b.key in (select k.key from unnest(p_known) k(key))
            union all
            select b.*, b.below
            from bykey b
            where (select f.few from few f) and b.below < b.hi and b.key not in (select k.key from unnest(p_known) k(key))
        ) l
        where l.older is not null
    ),
    head as materialized (
        select l.key, l.older as seq, m.bytes
        from late l
        cross join lateral (
            select octet_length(m.payload) as bytes from "outbox".message m where m.seq = l.older limit 1
        ) m
        where l.older < l.lo
    ),
    ok as materialized (
        select c.seq, c.hash from cand c
        where c.key is null
           or c.key not in (select b.key from blocked b) and c.key not in (select l.key from late l)
        union all
        select s.seq, hashtext(l.key)
        from late l
        cross join lateral unnest(l.seqs) s(seq)
        where s.seq < l.older
        union all
        select h.seq, hashtext(h.key) from head h
    ),
    edge as materialized (
        select coalesce(
            case when p_stream is not null then v_floor end,
            case when c.n < w.open then
                (select min(w.seq) from win w where w.open and w.seq > c.last) end,
            w.past, v_floor) as floor, w.scanned, w.open
        from (select count(*) as scanned, count(*) filter (where w.open) as open, max(w.seq) + 1 as past from win w) w,
             (select count(*) filter (where c.source = 1) as n,
                     coalesce(max(c.seq) filter (where c.source = 1), 0) as last
              from cand c) c
    )
    select e.floor, e.scanned, greatest(e.open - c.n + o.n, 0), null, null, c.n >= p_limit, false,
           case when o.above < e.scanned then
               (select array_agg(distinct w.key) from win w
                where w.mine and w.key is not null and not w.listed and w.seq < e.floor
                  and w.seq not in (select o.seq from ok o)) end,
           null,
           (select array_agg(k.key) from unnest(p_keys) k(key)
            where hashtext(k.key) not in (select h.hash from held h)
              and k.key not in (
                  select f.key from freed f
                  group by f.key
                  having count(*) >= v_each or not bool_and(f.seq in (select o.seq from ok o)))),
           null, null, null, null, o.seqs, o.hashes, null, null, null, null, null,
           case when p_stream is not null then
               (select array_agg(c.seq) from cand c where c.source = 1 and c.seq in (select o.seq from ok o))
           end,
           (select array_agg(u.seq) from unnest(p_stream) u(seq) where u.seq not in (select p.seq from picked p)),
           case when p_stream is not null then pg_current_snapshot()::text end
    from edge e,
         (select count(*) as n, coalesce(sum(c.bytes), 0) as bytes,
                 coalesce(bool_or(c.source = 0 and c.key in (select b.key from blocked b)), false) as blocked
          from cand c) c,
         (select count(*) as n, count(*) filter (where o.seq >= v_floor) as above,
                 array_agg(o.seq) as seqs, array_agg(o.hash) as hashes
          from ok o) o
    where not c.blocked
      and c.bytes + (select coalesce(sum(h.bytes), 0) from head h) <= p_bytes
      and (select count(*) from blocked) < 1000
    into choice;
    return choice;
end
$$;


--
-- Name: claim(uuid, text, uuid, integer, bigint, boolean, jsonb, bigint, boolean, integer, boolean, timestamp with time zone, bigint, integer, text[], bigint[], bigint[], integer, bigint, bigint, integer, bigint, bigint, text[], boolean, bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.claim(p_relay uuid, p_destination text, p_token uuid, p_limit integer, p_bytes bigint, p_oversized boolean, p_closed jsonb, p_floor bigint, p_share boolean, p_window integer, p_window_only boolean, p_due_at timestamp with time zone, p_due_seq bigint, p_due_rows integer, p_keys text[], p_seqs bigint[], p_foreign bigint[], p_lost integer, p_lost_after bigint, p_low bigint, p_backend integer, p_base bigint, p_high bigint, p_known text[], p_queue boolean, p_stream bigint[] DEFAULT NULL::bigint[], OUT state text, OUT claimed integer, OUT floor bigint, OUT scanned integer, OUT yielded integer, OUT due_at timestamp with time zone, OUT due_seq bigint, OUT cut boolean, OUT misfit boolean, OUT skipped_keys text[], OUT blocked_keys text[], OUT ended_keys text[], OUT foreign_ids bigint[], OUT lost_last bigint, OUT low bigint, OUT backend integer, OUT stopped text, OUT mixed boolean, OUT next_due bigint, OUT fresh bigint, OUT streamed bigint[], OUT absent bigint[], OUT snapshot text, OUT now timestamp with time zone) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_now      timestamptz;
    v_beat     bigint;
    v_take     text;   -- topics of this lane
    v_dest     text;   -- topics of this destination, on all relays
    v_free     text;   -- topics without order
    v_stop     text;
    v_floor    bigint;
    v_suspect  boolean; -- the relay holds one
    v_lost     boolean; -- there may be lost claims
    v_choice   "outbox".choice;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '"outbox".claim needs a READ COMMITTED transaction: in any other the snapshot is older than the lock'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform "outbox".plan_settings(), set_config('synchronous_commit', 'off', true);
    if p_queue then
        perform "outbox".claim_lock();
    elsif not "outbox".try_claim_lock() then
        state := 'busy';
        return;
    end if;

    v_now := clock_timestamp();
    delete from "outbox".relay
    where id = any (array(select r.id from "outbox".relay r where r.lease_until < v_now for update skip locked));
    select r.beat, r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_beat, v_take, v_free
    from "outbox".relay r where r.id = p_relay;
    if v_beat is null then
        state := 'unknown';
        return;
    end if;
    state := 'done';
    select case when bool_or(d.take = '') then '' else string_agg(d.take, '|') end
    into v_dest
    from (select distinct r.destinations -> p_destination ->> 'take' as take from "outbox".relay r) d;
    mixed := v_dest is distinct from v_take;

    if exists (select from "outbox".control) or p_closed is not null then
        v_stop := "outbox".topics_regexp((
            select coalesce(jsonb_agg(jsonb_build_object('in', true, 'pattern',
                       case c.scope when 'topic' then c.name else '>' end) order by c.scope, c.name), '[]')
            from "outbox".control c
            where c.scope = 'topic' or c.name = p_destination) || coalesce(p_closed, '[]'));
    end if;
    stopped := v_stop;

    backend := pg_backend_pid();
    low := case when p_backend = backend then p_low else 0 end;
    select coalesce(min(c.id), low), greatest(p_floor, coalesce(max(c.floor) filter (where p_share
               and c.destination = p_destination
               and c.relay in (select r.id from "outbox".relay r
                               where r.destinations -> p_destination ->> 'take' = v_take)), 0)),
           coalesce(bool_or(c.relay = p_relay and c.lapses >= 2), false),
           coalesce(bool_or(c.relay is null or c.relay not in (select r.id from "outbox".relay r)), false)
    into low, v_floor, v_suspect, v_lost
    from "outbox".claim c
    where c.id >= low;

    if v_stop is null and not mixed and not v_lost and not p_window_only and p_seqs = '{}'
        and not exists (select from "outbox".waiting w where w.available_at <= v_now)
        and not exists (select from "outbox".waiting w where w.key = any (p_keys) and w.holds)
        and not exists (select from "outbox".dead d where d.key = any (p_keys) and d.holds)
    then
        v_choice := "outbox".choose_plain(v_take, v_free, low, v_floor, p_destination, p_limit, p_bytes, p_window, p_keys,
            case when p_backend = backend then p_base else 0 end, case when p_backend = backend then p_high else 0 end, p_known, p_stream);
    end if;
    if v_choice.floor is null then
        v_choice := "outbox".choose(v_now, v_take, v_dest, v_free, v_stop, mixed, v_suspect, low, v_floor, p_destination,
            p_limit, p_bytes, p_oversized, p_window, p_window_only, p_due_at, p_due_seq, p_due_rows, p_keys, p_seqs,
            p_foreign, p_lost, p_lost_after, p_stream);
    end if;
    floor := v_choice.floor;
    scanned := v_choice.scanned;
    yielded := v_choice.yielded;
    due_at := v_choice.due_at;
    due_seq := v_choice.due_seq;
    cut := v_choice.cut;
    misfit := v_choice.misfit;
    skipped_keys := v_choice.skipped_keys;
    blocked_keys := v_choice.blocked_keys;
    ended_keys := v_choice.ended_keys;
    foreign_ids := v_choice.foreign_ids;
    lost_last := v_choice.lost_last;
    streamed := v_choice.streamed;
    absent := v_choice.absent;
    snapshot := v_choice.snapshot;
    now := v_now;

    if v_choice.lost is not null then
        perform "outbox".take_over(v_choice.lost,
            coalesce(v_choice.seqs, '{}') || coalesce(v_choice.relisted, '{}') || coalesce(v_choice.alone, '{}'));
    end if;
    -- Others share the floor, but not of windows that have left topics out, nor of a lane that follows the stream.
    with claims as (
        insert into "outbox".claim (token, relay, beat, destination, seqs, keys, floor, lapses, claimed_at)
        select p_token, p_relay, v_beat, p_destination, c.seqs, c.hashes,
               case when p_closed is null and p_stream is null then floor else 0 end, c.lapses, v_now
        from (values (v_choice.seqs, v_choice.hashes, 0), (v_choice.relisted, v_choice.rehashed, v_choice.lapses),
                     (v_choice.alone, v_choice.alone_hashes, v_choice.alone_lapses)) c(seqs, hashes, lapses)
        where c.seqs is not null
        returning id, lapses
    )
    select max(c.id) into fresh from claims c where c.lapses = 0;
    claimed := coalesce(cardinality(v_choice.seqs), 0) + coalesce(cardinality(v_choice.relisted), 0)
        + coalesce(cardinality(v_choice.alone), 0);

    -- When nothing among the next rows is for this lane: the time to look at those after them.
    select (extract(epoch from least(coalesce(min(w.available_at) filter (where w.topic ~ v_take), max(w.available_at)),
                                     v_now + interval '1 day') - v_now) * 1000000)::bigint
    into next_due
    from (select w.available_at, w.topic from "outbox".waiting w
          where w.available_at > v_now order by w.available_at limit 100) w
    having count(*) > 0;
end
$$;


--
-- Name: FUNCTION claim(p_relay uuid, p_destination text, p_token uuid, p_limit integer, p_bytes bigint, p_oversized boolean, p_closed jsonb, p_floor bigint, p_share boolean, p_window integer, p_window_only boolean, p_due_at timestamp with time zone, p_due_seq bigint, p_due_rows integer, p_keys text[], p_seqs bigint[], p_foreign bigint[], p_lost integer, p_lost_after bigint, p_low bigint, p_backend integer, p_base bigint, p_high bigint, p_known text[], p_queue boolean, p_stream bigint[], OUT state text, OUT claimed integer, OUT floor bigint, OUT scanned integer, OUT yielded integer, OUT due_at timestamp with time zone, OUT due_seq bigint, OUT cut boolean, OUT misfit boolean, OUT skipped_keys text[], OUT blocked_keys text[], OUT ended_keys text[], OUT foreign_ids bigint[], OUT lost_last bigint, OUT low bigint, OUT backend integer, OUT stopped text, OUT mixed boolean, OUT next_due bigint, OUT fresh bigint, OUT streamed bigint[], OUT absent bigint[], OUT snapshot text, OUT now timestamp with time zone); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.claim(p_relay uuid, p_destination text, p_token uuid, p_limit integer, p_bytes bigint, p_oversized boolean, p_closed jsonb, p_floor bigint, p_share boolean, p_window integer, p_window_only boolean, p_due_at timestamp with time zone, p_due_seq bigint, p_due_rows integer, p_keys text[], p_seqs bigint[], p_foreign bigint[], p_lost integer, p_lost_after bigint, p_low bigint, p_backend integer, p_base bigint, p_high bigint, p_known text[], p_queue boolean, p_stream bigint[], OUT state text, OUT claimed integer, OUT floor bigint, OUT scanned integer, OUT yielded integer, OUT due_at timestamp with time zone, OUT due_seq bigint, OUT cut boolean, OUT misfit boolean, OUT skipped_keys text[], OUT blocked_keys text[], OUT ended_keys text[], OUT foreign_ids bigint[], OUT lost_last bigint, OUT low bigint, OUT backend integer, OUT stopped text, OUT mixed boolean, OUT next_due bigint, OUT fresh bigint, OUT streamed bigint[], OUT absent bigint[], OUT snapshot text, OUT now timestamp with time zone) IS 'Takes messages for one lane of a relay; see docs/protocol.md.';


--
-- Name: claim_lock(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.claim_lock() RETURNS void
    LANGUAGE sql
    AS $$ select pg_advisory_xact_lock(28514, '"outbox".message'::regclass::oid::int) $$;


--
-- Name: discard(uuid[], text, text, text, text, interval, interval, boolean, bigint, text, text, boolean, integer, integer, bigint, text[], text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.discard(ids uuid[] DEFAULT NULL::uuid[], topic text DEFAULT NULL::text, key text DEFAULT NULL::text, error_class text DEFAULT NULL::text, error_text text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, newer_than interval DEFAULT NULL::interval, everything boolean DEFAULT false, max_messages bigint DEFAULT NULL::bigint, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text, dry_run boolean DEFAULT false, rate integer DEFAULT NULL::integer, batch integer DEFAULT 500, operation bigint DEFAULT NULL::bigint, states text[] DEFAULT NULL::text[], destination text DEFAULT NULL::text, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    filter jsonb;
begin
    if operation is null and not coalesce(dry_run, false) and coalesce(reason, '') = '' then
        raise invalid_parameter_value using message = 'a discard needs a reason';
    end if;
    if operation is null and not states <@ '{ready,waiting,dead}' then
        raise invalid_parameter_value using message = format('states %L: must be some of ready, waiting, dead', states);
    end if;
    if operation is null then
        filter := "outbox".change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages, states,
            destination);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from "outbox".change('discard', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;


--
-- Name: FUNCTION discard(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], destination text, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.discard(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], destination text, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) IS 'Removes ready, waiting or dead messages for a reason. One that a live relay holds is left alone and counted as held. destination: those that a replay has bound to it. One batch: while more is true, call it again with operation => operation_id.';


--
-- Name: discard_awaited(bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.discard_awaited(p_seqs bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    o      record;
    v_gone bigint;
begin
    for o in
        select x.id, x.actor, x.reason, array(select s.value::bigint from jsonb_array_elements_text(x.cursor -> 'held') s(value)) as seqs
        from "outbox".operation x
        where x.state = 'waiting' and (x.cursor ->> 'wait_until')::timestamptz > clock_timestamp()
        order by x.id
    loop
        v_gone := "outbox".end_discarded(array(select u.seq from unnest(p_seqs) u(seq) where u.seq = any (o.seqs)), o.actor, o.reason);
        if v_gone > 0 then
            update "outbox".operation x
            set counts = x.counts || jsonb_build_object('changed', (x.counts ->> 'changed')::bigint + v_gone)
            where x.id = o.id;
        end if;
    end loop;
end
$$;


--
-- Name: FUNCTION discard_awaited(p_seqs bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.discard_awaited(p_seqs bigint[]) IS 'Internal: discards what operators wait for, of messages that are being settled.';


--
-- Name: discard_held(bigint, interval); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.discard_held(operation bigint, wait interval, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
    o      "outbox".operation;
    v_seqs bigint[];
    v_n    bigint;
    v_held bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise object_not_in_prerequisite_state using
            message = 'this needs a READ COMMITTED transaction: in any other the snapshot is older than the lock';
    end if;
    perform "outbox".plan_settings();
    if current_setting('lock_timeout') = '0' then
        perform set_config('lock_timeout', '10s', true);
    end if;
    perform "outbox".claim_lock();
    select * into o from "outbox".operation x
    where x.id = discard_held.operation and x.verb = 'discard' and x.state <> 'running' for update;
    if not found then
        raise invalid_parameter_value using message = format('there is no operation %s of discard that has come to its end', operation);
    end if;
    v_seqs := array(select s.value::bigint from jsonb_array_elements_text(o.cursor -> 'held') s(value));
    select d.changed, d.held into v_n, v_held from "outbox".discard_rows(v_seqs, o.actor, o.reason) d;
    more := v_held <> '{}' and wait > interval '0';
    update "outbox".operation x
    set state = case when more then 'waiting' else 'done' end, finished_at = clock_timestamp(),
        cursor = x.cursor || jsonb_build_object('held', to_jsonb(v_held), 'wait_until', clock_timestamp() + wait),
        counts = x.counts || jsonb_build_object('changed', (x.counts ->> 'changed')::bigint + v_n,
            'held', (x.counts ->> 'held')::bigint - cardinality(v_seqs) + cardinality(v_held))
    where x.id = o.id
    returning x.id, (x.counts ->> 'matched')::bigint, (x.counts ->> 'changed')::bigint, (x.counts ->> 'held')::bigint
    into operation_id, matched, changed, held;
    if v_n > 0 then
        perform "outbox".wake_relays();
    end if;
end
$$;


--
-- Name: FUNCTION discard_held(operation bigint, wait interval, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.discard_held(operation bigint, wait interval, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) IS 'Goes on with a discard until relays let go of what they held; returns more while it waits.';


--
-- Name: discard_rows(bigint[], text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.discard_rows(p_seqs bigint[], p_actor text, p_reason text, OUT changed bigint, OUT held bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_rows record;
begin
    select * into v_rows from "outbox".unheld_rows(p_seqs);
    held := v_rows.held;
    changed := "outbox".end_discarded(v_rows.free, p_actor, p_reason);
    perform "outbox".take_over(v_rows.lost, v_rows.free);
end
$$;


--
-- Name: FUNCTION discard_rows(p_seqs bigint[], p_actor text, p_reason text, OUT changed bigint, OUT held bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.discard_rows(p_seqs bigint[], p_actor text, p_reason text, OUT changed bigint, OUT held bigint[]) IS 'Internal: removes these messages, under the claim lock.';


--
-- Name: drop_partition(timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.drop_partition(p_before timestamp with time zone, OUT name text, OUT messages bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '100ms'
    AS $$
#variable_conflict use_variable
declare
    v_counted constant int := 5000000;
begin
    messages := 0;
    if not pg_try_advisory_xact_lock(28514, '"outbox".archive'::regclass::oid::int) then
        return;
    end if;
    select p.name into name from "outbox".partitions() p where p.upper <= p_before order by p.upper limit 1;
    if name is null then
        return;
    end if;
    execute format('select count(*) from (select from %I.%I limit %s) t', 'outbox', name, v_counted + 1) into messages;
    if messages > v_counted then
        select greatest(c.reltuples::bigint, messages) into messages
        from pg_class c where c.oid = to_regclass(format('%I.%I', 'outbox', name));
    end if;
    execute format('drop table %I.%I', 'outbox', name);
end
$$;


--
-- Name: FUNCTION drop_partition(p_before timestamp with time zone, OUT name text, OUT messages bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.drop_partition(p_before timestamp with time zone, OUT name text, OUT messages bigint) IS 'Drops the oldest partition of the archive that ended at a time or before.';


--
-- Name: end_discarded(bigint[], text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.end_discarded(p_seqs bigint[], p_actor text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_mode    constant text := (select s.value from "outbox".setting s where s.name = 'archive');
    v_changed bigint := 0;
    v_n       bigint;
begin
    if p_seqs = '{}' then
        return 0;
    elsif v_mode in ('bare', 'full') then
        return (select a.ended from "outbox".archive_rows(p_seqs, array_fill('discarded'::text, array[cardinality(p_seqs)]),
            array_fill(p_reason, array[cardinality(p_seqs)]), null, p_actor, v_mode = 'full', clock_timestamp()) a);
    end if;
    delete from "outbox".message m where m.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    v_changed := v_changed + v_n;
    delete from "outbox".waiting w where w.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    v_changed := v_changed + v_n;
    delete from "outbox".dead d where d.seq = any (p_seqs);
    get diagnostics v_n = row_count;
    return v_changed + v_n;
end
$$;


--
-- Name: FUNCTION end_discarded(p_seqs bigint[], p_actor text, p_reason text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.end_discarded(p_seqs bigint[], p_actor text, p_reason text) IS 'Internal: removes messages that nobody may settle any more.';


--
-- Name: expire_archive(timestamp with time zone, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.expire_archive(p_before timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_name    text;
    v_deleted int := 0;
    v_n       int;
begin
    for v_name in
        select p.name from "outbox".partitions() p where p.lower < p_before and p.upper > p_before
        union all select 'archive_default'
    loop
        execute format('delete from %I.%I t where t.ctid = any (array(
            select x.ctid from %I.%I x where x.ended_at < $1 order by x.ended_at limit $2))', 'outbox', v_name, 'outbox', v_name)
        using p_before, p_limit - v_deleted;
        get diagnostics v_n = row_count;
        v_deleted := v_deleted + v_n;
        exit when v_deleted >= p_limit;
    end loop;
    return v_deleted;
end
$_$;


--
-- Name: FUNCTION expire_archive(p_before timestamp with time zone, p_limit integer); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.expire_archive(p_before timestamp with time zone, p_limit integer) IS 'Deletes messages from the archive that ended before a time, where their partition cannot be dropped.';


--
-- Name: fail(bigint[], bigint[], text[], integer[], bigint[], text[], text[], timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.fail(failed bigint[], p_seqs bigint[], p_kinds text[], p_attempts integer[], p_delays bigint[], p_classes text[], p_texts text[], now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    update "outbox".waiting w
    set attempts = o.attempts, lapses = 2 * (o.class = 'crash')::int, holds = w.key is not null,
        available_at = least(now + o.delay * interval '1 microsecond', w.expires_at),
        first_failed_at = coalesce(w.first_failed_at, now), failed_at = now,
        error_class = o.class, last_error = o.text
    from unnest(p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts) o(seq, kind, attempts, delay, class, text)
    where w.seq = o.seq and o.seq = any (failed) and o.kind = 'retried';

    with m as (
        delete from "outbox".message m where m.seq = any (failed) returning m.*
    ), o as (
        select * from unnest(p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts)
            o(seq, kind, attempts, delay, class, text)
    ), retried as (
        insert into "outbox".waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at, attempts, lapses, holds, available_at, first_failed_at, failed_at, error_class, last_error)
        select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl,
            m.expires_at, m.published_at, o.attempts, 2 * (o.class = 'crash')::int, m.key is not null,
            least(now + o.delay * interval '1 microsecond', m.expires_at), now, now, o.class, o.text
        from m join o using (seq) where o.kind = 'retried'
    )
    insert into "outbox".dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
        expires_at, published_at, attempts, lapses, holds, first_failed_at, failed_at, error_class, last_error, died_at)
    select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl,
        m.expires_at, m.published_at, o.attempts, 2 * (o.class = 'crash')::int, o.kind = 'parked' and m.key is not null,
        now, now, o.class, o.text, now
    from m join o using (seq) where o.kind in ('died', 'parked');

    with w as (
        delete from "outbox".waiting w
        using unnest(p_seqs, p_kinds) o(seq, kind)
        where w.seq = o.seq and w.seq = any (failed) and o.kind in ('died', 'parked')
        returning w.*
    )
    insert into "outbox".dead (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
        expires_at, published_at, generation, attempts, lapses, holds, destination, first_failed_at, failed_at,
        error_class, last_error, died_at)
    select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl,
        w.expires_at, w.published_at, w.generation, o.attempts, 2 * (o.class = 'crash')::int,
        o.kind = 'parked' and w.key is not null, w.destination,
        coalesce(w.first_failed_at, now), now, o.class, o.text, now
    from w join unnest(p_seqs, p_kinds, p_attempts, p_classes, p_texts) o(seq, kind, attempts, class, text) using (seq);
end
$$;


--
-- Name: fetch(uuid, uuid, interval, bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox."fetch"(p_token uuid, p_relay uuid, p_ttl interval, p_known bigint[]) RETURNS TABLE(claim bigint, lapses integer, seq bigint, id uuid, topic text, key text, payload bytea, headers text, dedup_key text, max_attempts integer, broker_ttl bigint, time_left bigint, published_at timestamp with time zone, generation integer, attempts integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
begin
    perform "outbox".plan_settings();
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
            from "outbox".claim c
            where c.token = p_token and c.relay = p_relay
        ) c
        cross join lateral (
            select m.seq, m.id, m.topic, m.key, m.payload, m.headers, m.dedup_key, m.max_attempts, m.broker_ttl, m.expires_at,
                   m.published_at, 0 as generation, 0 as attempts
            from "outbox".message m where m.seq = any (c.seqs)
            union all
            select w.seq, w.id, w.topic, w.key, w.payload, w.headers, w.dedup_key, w.max_attempts, w.broker_ttl, w.expires_at,
                   w.published_at, w.generation, w.attempts
            from "outbox".waiting w where w.seq = any (c.seqs)
        ) m;
end
$$;


--
-- Name: give_back(bigint[], bigint[], text[], bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.give_back(p_claims bigint[], p_seqs bigint[], p_kinds text[], settled bigint[]) RETURNS void
    LANGUAGE sql
    AS $$
    insert into "outbox".claim (token, relay, beat, destination, seqs, keys, floor, lapses)
    select (array_agg(c.token))[1], null, 0, c.destination, array_agg(u.seq order by u.seq),
           array_agg(u.key order by u.seq), 0, c.lapses
    from unnest(p_claims, p_seqs, p_kinds) o(claim, seq, kind)
    join "outbox".claim c on c.id = o.claim
    cross join lateral unnest(c.seqs, c.keys) u(seq, key)
    where o.kind = 'given_back' and u.seq = o.seq and o.seq = any (settled)
    group by c.destination, c.lapses
$$;


--
-- Name: has_ended(bigint); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.has_ended(p_seq bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    perform "outbox".plan_settings();
    perform from "outbox".message m where m.seq = p_seq for key share;
    if found then
        return false;
    end if;
    perform from "outbox".waiting w where w.seq = p_seq for key share;
    return not found;
end
$$;


--
-- Name: headers_valid(jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.headers_valid(headers jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
begin
    if headers = '{}' then
        return true;
    end if;
    if jsonb_typeof(headers) <> 'object' then
        return false;
    end if;
    return (
        select count(*) <= 64
           and count(distinct lower(h.name)) = count(*)
           and sum(octet_length(h.name) + octet_length(h.value #>> '{}')) <= 16384
           and bool_and(jsonb_typeof(h.value) = 'string')
           and bool_and(h.name ~ '^[A-Za-z0-9._-]{1,64}$')
           and bool_and(h.name !~* '^(outbox|nats)-' or h.name = 'Outbox-Causation')
           and bool_and(h.value #>> '{}' !~ '[\x01-\x1f\x7f-\x9f]')
        from jsonb_each(headers) h(name, value)
    );
end
$_$;


--
-- Name: FUNCTION headers_valid(headers jsonb); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.headers_valid(headers jsonb) IS 'At most 64 string headers, 16 KiB together, names unique without case and not reserved but for Outbox-Causation, values without control characters.';


--
-- Name: held(bigint, text, bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.held(low bigint, lane text, but bigint[]) RETURNS SETOF integer
    LANGUAGE plpgsql STABLE ROWS 2000
    AS $$
begin
    return query
        select k.hash
        from "outbox".claim c, unnest(c.keys) k(hash)
        where c.id >= low and c.destination = lane and c.id <> all (but) and k.hash is not null;
end
$$;


--
-- Name: FUNCTION held(low bigint, lane text, but bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.held(low bigint, lane text, but bigint[]) IS 'Hashes of the keys held in a lane by claims other than these.';


--
-- Name: home(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.home() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_system text;
begin
    begin
        select c.system_identifier::text into v_system from pg_control_system() c;
    exception when insufficient_privilege then -- where a provider keeps it to itself
        v_system := '?';
    end;
    return format('%s/%s/%s', v_system, (select d.oid from pg_database d where d.datname = current_database()),
                  '"outbox".message'::regclass::oid);
end
$$;


--
-- Name: FUNCTION home(); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.home() IS 'Which database the outbox is in. The setting home says where it was made.';


--
-- Name: lane_regexps(jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.lane_regexps(lanes jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$
    select coalesce(jsonb_object_agg(l.key, l.value || jsonb_build_object(
               'take', "outbox".topics_regexp(l.value -> 'topics'),
               'free', "outbox".topics_regexp(l.value -> 'unordered'))), '{}')
    from jsonb_each(lanes) l
$$;


--
-- Name: listed(bigint); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.listed(low bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE ROWS 2000
    AS $$
begin
    return query select unnest(c.seqs) from "outbox".claim c where c.id >= low;
end
$$;


--
-- Name: FUNCTION listed(low bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.listed(low bigint) IS 'Every seq that a claim lists.';


--
-- Name: locate(uuid[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.locate(p_ids uuid[]) RETURNS TABLE(id uuid, seq bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
    v_id     uuid;
    v_left   uuid[] := '{}';
    v_from   bigint;
    v_found  bigint;
    v_margin int;
begin
    foreach v_id in array p_ids loop
        select coalesce((select w.seq from "outbox".waiting w where w.id = v_id limit 1),
                        (select d.seq from "outbox".dead d where d.id = v_id limit 1))
        into v_found;
        if get_byte(uuid_send(v_id), 6) >> 4 = 7 then
            -- In a burst a minute has more messages than are looked at; clocks of publishers differ by less mostly.
            foreach v_margin in array '{1,60}'::int[] loop
                exit when v_found is not null;
                v_from := "outbox".seq_at(to_timestamp(
                    ('x' || translate(left(v_id::text, 13), '-', ''))::bit(48)::bigint / 1000.0 - v_margin));
                select p.seq into v_found
                from (select m.seq, m.id from "outbox".message m where m.seq >= v_from order by m.seq limit 100000) p
                where p.id = v_id
                limit 1;
            end loop;
        end if;
        if v_found is null then
            v_left := v_left || v_id;
        else
            id := v_id;
            seq := v_found;
            return next;
        end if;
    end loop;
    if v_left <> '{}' then
        return query select m.id, m.seq from "outbox".message m where m.id = any (v_left);
    end if;
end
$$;


--
-- Name: FUNCTION locate(p_ids uuid[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.locate(p_ids uuid[]) IS 'Internal: the seqs of undelivered and dead messages, by id.';


--
-- Name: lock_keys(text[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.lock_keys(keys text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    line constant bigint := '"outbox".message'::regclass::oid::bigint << 6;
    lock bigint;
begin
    for lock in
        select distinct (line | (hashtext(k.key collate "C") & 63)) & 4294967295 as object
        from unnest(keys) k(key)
        where k.key is not null
        order by object
    loop
        -- The same 32 bits as a signed integer.
        perform pg_advisory_xact_lock(28516, (case when lock < 2147483648 then lock else lock - 4294967296 end)::int);
    end loop;
    return true;
end
$$;


--
-- Name: FUNCTION lock_keys(keys text[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.lock_keys(keys text[]) IS 'Locks the keys to the end of the transaction, so that transactions that publish one of them take turns: their order is that of their commits. Before a plain INSERT call it yourself; publish does with the setting lock_keys = on. Returns true.';


--
-- Name: look_at_rows(text, text, bigint[], jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, OUT held bigint, OUT bare bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    held := 0;
    bare := 0;
    if p_verb = 'redrive' and not p_filter ? 'by_route' then
        held := cardinality("outbox".untaken_rows(p_seqs));
    elsif p_verb = 'discard' or p_filter ? 'by_route' then
        held := (select count(*) from unnest(p_seqs) s(seq) where s.seq in (
            select u.seq from "outbox".claim c cross join lateral unnest(c.seqs) u(seq)
            where c.relay in (select r.id from "outbox".relay r where r.lease_until >= clock_timestamp())));
    elsif p_verb = 'purge' and p_table = 'dead' and not (p_filter -> 'holding')::boolean then
        held := (select count(*) from "outbox".dead d where d.seq = any (p_seqs) and d.holds);
    elsif p_verb = 'replay' then
        select r.held, r.bare into held, bare from "outbox".replay_rows(p_seqs, p_filter, true) r;
    end if;
end
$$;


--
-- Name: FUNCTION look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, OUT held bigint, OUT bare bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, OUT held bigint, OUT bare bigint) IS 'Internal: what an operation would leave alone.';


--
-- Name: move_from_default(text, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.move_from_default(p_name text, p_lower timestamp with time zone, p_upper timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
begin
    execute format('with moved as (delete from %I.archive_default where ended_at >= $1 and ended_at < $2 returning *)
        insert into %I.%I select * from moved', 'outbox', 'outbox', p_name) using p_lower, p_upper;
end
$_$;


--
-- Name: FUNCTION move_from_default(p_name text, p_lower timestamp with time zone, p_upper timestamp with time zone); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.move_from_default(p_name text, p_lower timestamp with time zone, p_upper timestamp with time zone) IS 'Internal: moves rows to a table that will be their partition.';


--
-- Name: new_id(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.new_id() RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select encode(
        substring(int8send(t.micros / 1000) from 3)
        || int2send((28672 + (t.micros % 1000) * 4096 / 1000)::int2)
        || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid
    from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint) t(micros)
$$;


--
-- Name: FUNCTION new_id(); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.new_id() IS 'A UUID of version 7, so that ids sort by the time they were made.';


--
-- Name: notify_relays(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.notify_relays() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    perform pg_notify('outbox', '');
    return null;
end
$$;


--
-- Name: FUNCTION notify_relays(); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.notify_relays() IS 'Internal: the trigger of set_notify(''trigger'').';


--
-- Name: operations(bigint, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.operations(only_id bigint DEFAULT NULL::bigint, max_rows integer DEFAULT 100) RETURNS TABLE(id bigint, verb text, state text, filter jsonb, actor text, reason text, rate integer, counts jsonb, started_at timestamp with time zone, finished_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select o.id, o.verb, o.state, o.filter - 'seqs', o.actor, o.reason, o.rate, o.counts, o.started_at, o.finished_at
    from (
        (select * from "outbox".operation o where o.state <> 'done' and (only_id is null or o.id = only_id) order by o.id desc limit max_rows)
        union all
        (select * from "outbox".operation o where o.state = 'done' and (only_id is null or o.id = only_id) order by o.id desc limit max_rows)
    ) o
    order by o.state = 'done', o.id desc
    limit max_rows
$$;


--
-- Name: FUNCTION operations(only_id bigint, max_rows integer); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.operations(only_id bigint, max_rows integer) IS 'What operators did and are doing, what is not done first.';


--
-- Name: partition_bound(timestamp with time zone, text, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.partition_bound(p_at timestamp with time zone, p_granularity text, p_steps integer) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_at     timestamp := p_at at time zone 'UTC';
    v_length int;
    v_first  constant date := '2001-01-01';
    v_months int;
begin
    if p_granularity is null or p_granularity !~ '^[1-9][0-9]{0,2}[dm]$' then
        raise invalid_parameter_value using message = format('granularity %L: must be a number of days or months, such as 1d, 7d or 1m', p_granularity);
    end if;
    v_length := left(p_granularity, -1)::int;
    if right(p_granularity, 1) = 'd' then
        return (v_first + (floor((v_at::date - v_first)::numeric / v_length)::int + p_steps) * v_length)::timestamp at time zone 'UTC';
    end if;
    v_months := (extract(year from v_at)::int - 2001) * 12 + extract(month from v_at)::int - 1;
    return (v_first + make_interval(months => (floor(v_months::numeric / v_length)::int + p_steps) * v_length)) at time zone 'UTC';
end
$_$;


--
-- Name: FUNCTION partition_bound(p_at timestamp with time zone, p_granularity text, p_steps integer); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.partition_bound(p_at timestamp with time zone, p_granularity text, p_steps integer) IS 'Internal: the beginning of a partition.';


--
-- Name: partitions(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.partitions() RETURNS TABLE(name text, lower timestamp with time zone, upper timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    AS $$
    select c.relname::text,
           coalesce(substring(b.bound from 'FROM \(''([^'']+)''\)')::timestamptz, '-infinity'),
           coalesce(substring(b.bound from 'TO \(''([^'']+)''\)')::timestamptz, 'infinity')
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as bound) b
    where i.inhparent = '"outbox".archive'::regclass and b.bound <> 'DEFAULT'
    order by 2
$$;


--
-- Name: FUNCTION partitions(); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.partitions() IS 'The archive''s partitions, the end exclusive.';


--
-- Name: pause(text, text, text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.pause(topic text DEFAULT NULL::text, destination text DEFAULT NULL::text, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
declare
    operation_id bigint;
    scope text := case when topic is not null then 'topic' else 'destination' end;
begin
    perform "outbox".check_pause(topic, destination);
    actor := coalesce(nullif(actor, ''), session_user);
    perform "outbox".claim_lock();
    insert into "outbox".control as c (scope, name, reason, actor) values (scope, coalesce(topic, destination), reason, actor)
    on conflict on constraint control_pkey do update
    set reason = excluded.reason, actor = excluded.actor, at = excluded.at;
    insert into "outbox".operation (verb, filter, state, actor, reason, counts, finished_at)
    values ('pause', jsonb_build_object(scope, coalesce(topic, destination)), 'done', actor, reason, '{"changed": 1}', clock_timestamp())
    returning id into operation_id;
    return operation_id;
end
$$;


--
-- Name: FUNCTION pause(topic text, destination text, actor text, reason text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.pause(topic text, destination text, actor text, reason text) IS 'No relay claims from this topic pattern or destination until it is resumed; its messages hold their keys. Returns the operation''s id.';


--
-- Name: payload_text(bytea); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.payload_text(payload bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    return convert_from(payload, 'UTF8');
exception when others then
    return null;
end
$$;


--
-- Name: FUNCTION payload_text(payload bytea); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.payload_text(payload bytea) IS 'A payload as text; null if it is none.';


--
-- Name: plan_settings(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.plan_settings() RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    perform set_config('enable_seqscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true),
            set_config('enable_memoize', 'off', true),
            set_config('plan_cache_mode', 'force_generic_plan', true),
            set_config('jit', 'off', true),
            set_config('work_mem', '16MB', true);
end
$$;


--
-- Name: publish(text, bytea, text, jsonb, text, interval, timestamp with time zone, interval, timestamp with time zone, interval, text, integer, uuid); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.publish(topic text, payload bytea, key text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb, content_type text DEFAULT NULL::text, delay interval DEFAULT NULL::interval, deliver_at timestamp with time zone DEFAULT NULL::timestamp with time zone, ttl interval DEFAULT NULL::interval, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, broker_ttl interval DEFAULT NULL::interval, dedup_key text DEFAULT NULL::text, max_attempts integer DEFAULT NULL::integer, id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    payload_max constant bigint := coalesce(
        (select s.value::bigint from "outbox".setting s where s.name = 'payload_max'), 1048576);
    published uuid;
begin
    if octet_length(payload) > payload_max then
        raise check_violation using
            message = format('payload has %s bytes, the limit is %s', octet_length(payload), payload_max),
            hint = 'The limit is the setting payload_max.',
            schema = 'outbox', table = 'message', column = 'payload', constraint = 'message_payload_max';
    end if;
    perform "outbox".check_times(delay, deliver_at, ttl, expires_at);
    if key is not null
        and (select s.value from "outbox".setting s where s.name = 'lock_keys') = 'on'
    then
        perform "outbox".lock_keys(array[key]);
    end if;
    published := "outbox".publish_row(
        id => coalesce(id, "outbox".new_id()), own_id => id is not null,
        topic => topic, key => key, payload => payload,
        headers => "outbox".with_content_type(coalesce(headers, '{}'), content_type), max_attempts => max_attempts,
        broker_ttl => broker_ttl, ttl => ttl, expires_at => expires_at,
        delay => delay, deliver_at => deliver_at, dedup_key => dedup_key);
    if published is not null
        and coalesce((select s.value from "outbox".setting s where s.name = 'notify'), 'publish') = 'publish'
    then
        perform pg_notify('outbox', ''); -- a hint; the same one several times in a transaction is sent once
    end if;
    return published;
end
$$;


--
-- Name: FUNCTION publish(topic text, payload bytea, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.publish(topic text, payload bytea, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid) IS 'Publishes a message in the current transaction and returns its id; null: a message with this dedup key is there already. An id that is taken is error 23505. max_attempts 0: unlimited, null: the relay''s rule.';


--
-- Name: publish_json(text, json, text, jsonb, text, interval, timestamp with time zone, interval, timestamp with time zone, interval, text, integer, uuid); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.publish_json(topic text, payload json, key text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb, content_type text DEFAULT NULL::text, delay interval DEFAULT NULL::interval, deliver_at timestamp with time zone DEFAULT NULL::timestamp with time zone, ttl interval DEFAULT NULL::interval, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, broker_ttl interval DEFAULT NULL::interval, dedup_key text DEFAULT NULL::text, max_attempts integer DEFAULT NULL::integer, id uuid DEFAULT NULL::uuid) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if content_type is null
        and not exists (select from jsonb_object_keys(
            case jsonb_typeof(headers) when 'object' then headers else '{}' end) h(name)
            where lower(h.name) = 'content-type')
    then
        content_type := 'application/json';
    end if;
    return "outbox".publish(
        topic => topic, payload => convert_to(payload::text, 'UTF8'), key => key, headers => headers,
        content_type => content_type, delay => delay, deliver_at => deliver_at, ttl => ttl,
        expires_at => expires_at, broker_ttl => broker_ttl, dedup_key => dedup_key,
        max_attempts => max_attempts, id => id);
end
$$;


--
-- Name: FUNCTION publish_json(topic text, payload json, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.publish_json(topic text, payload json, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid) IS 'Like publish for a JSON payload, kept as it is written; its content type is application/json unless given.';


--
-- Name: publish_row(uuid, boolean, text, text, bytea, jsonb, integer, interval, interval, timestamp with time zone, interval, timestamp with time zone, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.publish_row(id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts integer, broker_ttl interval, ttl interval, expires_at timestamp with time zone, delay interval, deliver_at timestamp with time zone, dedup_key text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    n      bigint;
    now_at timestamptz;
    due    timestamptz;
    ends   timestamptz;
begin
    -- An INSERT would refuse these as well, with the row in its error.
    if topic is null or payload is null then
        raise not_null_violation using
            message = case when topic is null then 'topic' else 'payload' end || ': must not be null',
            schema = 'outbox', table = 'message', column = case when topic is null then 'topic' else 'payload' end;
    end if;
    if topic = '' then -- which belongs to ids
        perform "outbox".refuse('message_topic', topic);
    end if;
    -- Before the seq is drawn, as an INSERT does it: who has drawn one and not ended is found by this lock, and below there
    -- may be a long wait (pgstore/base.go).
    lock table "outbox".message in row exclusive mode;
    n := nextval('"outbox".seq');
    if dedup_key is not null and not "outbox".take_dedup_key(topic, dedup_key, id, n) then
        return null;
    end if;
    if own_id and not "outbox".take_dedup_key('', id::text, id, n) then
        raise unique_violation using
            message = format('a message with the id %s exists already', id),
            schema = 'outbox', table = 'message', column = 'id', constraint = 'message_id_unique';
    end if;

    now_at := clock_timestamp(); -- after the waits above
    due := coalesce(deliver_at, now_at + delay);
    ends := coalesce(expires_at, now_at + ttl);
    if due > now_at then
        insert into "outbox".waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at, available_at)
        values (n, publish_row.id, publish_row.topic, publish_row.key, publish_row.payload, publish_row.headers,
            publish_row.dedup_key, publish_row.max_attempts, publish_row.broker_ttl, ends, now_at, due);
    else
        insert into "outbox".message (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl,
            expires_at, published_at)
        values (n, publish_row.id, publish_row.topic, publish_row.key, publish_row.payload, publish_row.headers,
            publish_row.dedup_key, publish_row.max_attempts, publish_row.broker_ttl, ends, now_at);
    end if;
    return publish_row.id;
end
$$;


--
-- Name: FUNCTION publish_row(id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts integer, broker_ttl interval, ttl interval, expires_at timestamp with time zone, delay interval, deliver_at timestamp with time zone, dedup_key text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.publish_row(id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts integer, broker_ttl interval, ttl interval, expires_at timestamp with time zone, delay interval, deliver_at timestamp with time zone, dedup_key text) IS 'Internal: inserts one message; null: the dedup key is taken. Use publish or publish_json.';


--
-- Name: purge(text[], uuid[], text, text, text, text, interval, interval, boolean, boolean, bigint, text, text, boolean, integer, integer, bigint); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.purge(states text[] DEFAULT NULL::text[], ids uuid[] DEFAULT NULL::uuid[], topic text DEFAULT NULL::text, key text DEFAULT NULL::text, error_class text DEFAULT NULL::text, error_text text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, newer_than interval DEFAULT NULL::interval, everything boolean DEFAULT false, holding boolean DEFAULT false, max_messages bigint DEFAULT NULL::bigint, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text, dry_run boolean DEFAULT false, rate integer DEFAULT NULL::integer, batch integer DEFAULT 500, operation bigint DEFAULT NULL::bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    filter jsonb;
begin
    if operation is null then
        if not states <@ '{delivered,dropped,expired,discarded,dead}' then
            raise invalid_parameter_value using message = format('states %L: must be some of delivered, dropped, expired, discarded, dead', states);
        end if;
        filter := "outbox".change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages, states)
            || jsonb_build_object('states', coalesce(states, '{delivered,dropped,expired,discarded,dead}'), 'holding', coalesce(holding, false));
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from "outbox".change('purge', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;


--
-- Name: FUNCTION purge(states text[], ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, holding boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.purge(states text[], ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, holding boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) IS 'Forgets messages that have ended, or are dead: of these states, without states of all of them; never ready, waiting or claimed ones. A call without any filter is refused unless everything. Dead ones that hold their key are left alone and counted as held unless holding. Ages count from the end or the death. One batch: while more is true, call it again with operation => operation_id.';


--
-- Name: purge_partition(jsonb, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.purge_partition(p_filter jsonb, p_rate integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if p_rate is not null or p_filter ?| '{ids,topic,key,class,text,after,limit}'
       or not p_filter -> 'states' @> '["delivered", "dropped", "expired", "discarded"]' then
        return null;
    end if;
    return (select case when d.name is not null then d.messages end
            from "outbox".drop_partition(coalesce((p_filter ->> 'before')::timestamptz, clock_timestamp())) d);
exception when lock_not_available then
    return null;
end
$$;


--
-- Name: FUNCTION purge_partition(p_filter jsonb, p_rate integer); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.purge_partition(p_filter jsonb, p_rate integer) IS 'Internal: purges a whole partition of the archive.';


--
-- Name: purge_rows(text, bigint[], jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
begin
    if p_table = 'dead' then
        delete from "outbox".dead d where d.seq = any (p_seqs) and (not d.holds or (p_filter -> 'holding')::boolean);
        get diagnostics changed = row_count;
        held := (select count(*) from "outbox".dead d where d.seq = any (p_seqs));
        return;
    end if;
    -- One seq may have several generations.
    delete from "outbox".archive a
    where a.seq = any (p_seqs)
      and p_filter -> 'states' ? a.outcome
      and a.ended_at <= coalesce((p_filter ->> 'before')::timestamptz, 'infinity')
      and a.ended_at > coalesce((p_filter ->> 'after')::timestamptz, '-infinity')
      and (not p_filter ? 'text' or position(p_filter ->> 'text' in a.detail) > 0);
    get diagnostics changed = row_count;
    held := 0;
end
$$;


--
-- Name: FUNCTION purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) IS 'Internal: purges these messages.';


--
-- Name: redrive(uuid[], text, text, text, text, interval, interval, boolean, bigint, text, text, boolean, integer, integer, bigint, text, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.redrive(ids uuid[] DEFAULT NULL::uuid[], topic text DEFAULT NULL::text, key text DEFAULT NULL::text, error_class text DEFAULT NULL::text, error_text text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, newer_than interval DEFAULT NULL::interval, everything boolean DEFAULT false, max_messages bigint DEFAULT NULL::bigint, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text, dry_run boolean DEFAULT false, rate integer DEFAULT NULL::integer, batch integer DEFAULT 500, operation bigint DEFAULT NULL::bigint, destination text DEFAULT NULL::text, by_route boolean DEFAULT false, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    filter jsonb;
begin
    if operation is null then
        filter := "outbox".change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages,
            null, destination, by_route);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from "outbox".change('redrive', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;


--
-- Name: FUNCTION redrive(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.redrive(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) IS 'Dead messages are delivered again: due now, attempts from 0, the generation one higher, their keys held from now on. destination: those that a replay has bound to it; by_route ends the binding. Bound ones that no live relay would take are left alone and counted as held. One batch: while more is true, call it again with operation => operation_id.';


--
-- Name: redrive_rows(bigint[], jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.redrive_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_by_route constant boolean := p_filter ? 'by_route';
    v_left     bigint[] := '{}';
begin
    if not v_by_route then
        v_left := "outbox".untaken_rows(p_seqs);
    end if;
    with d as (
        delete from "outbox".dead d where d.seq = any (p_seqs) and d.seq <> all (v_left) returning d.*
    )
    insert into "outbox".waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at,
        published_at, generation, lapses, holds, destination, available_at, failed_at, error_class, last_error)
    select d.seq, d.id, d.topic, d.key, d.payload, d.headers, d.dedup_key, d.max_attempts, d.broker_ttl, d.expires_at,
        d.published_at, d.generation + 1, d.lapses, d.key is not null, case when not v_by_route then d.destination end,
        clock_timestamp(), d.failed_at, d.error_class, d.last_error
    from d;
    get diagnostics changed = row_count;
    held := cardinality(v_left);
end
$$;


--
-- Name: FUNCTION redrive_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.redrive_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) IS 'Internal: redrives these messages, under the claim lock.';


--
-- Name: refuse(text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.refuse(name text, value text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    of_table  constant text := split_part(name, '_', 1);
    of_column constant text := substr(name, length(of_table) + 2);
begin
    raise check_violation using
        message = concat(of_column, ' ' || quote_literal(left(value, 80)), ': ', case of_column
            when 'topic' then 'must be tokens of A-Z a-z 0-9 _ - joined by dots, such as orders.created, at most 255 bytes'
            when 'key' then 'must be 1 to 512 bytes without control characters, or null'
            when 'payload' then 'must be at most 67108864 bytes'
            when 'headers' then 'must be an object of at most 64 strings, 16384 bytes together: names of 1 to 64 of A-Z a-z 0-9 . _ -, unique without '
                'case, that do not begin with Outbox- or Nats-; values without control characters'
            when 'dedup_key' then 'must be 1 to 255 bytes, or null'
            when 'max_attempts' then 'must be 1 or more, 0 for unlimited, or null for the relay''s rule'
            when 'broker_ttl' then 'must be above zero, or null'
            else 'must be finite'
        end),
        schema = 'outbox', table = of_table, column = of_column, constraint = name;
end
$$;


--
-- Name: FUNCTION refuse(name text, value text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.refuse(name text, value text) IS 'Internal: raises the violation of the CHECK of this name, without the row; the value is shown.';


--
-- Name: replay(text, uuid[], text, text, text, interval, interval, boolean, bigint, text, text, boolean, integer, integer, bigint, text[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.replay(destination text DEFAULT NULL::text, ids uuid[] DEFAULT NULL::uuid[], topic text DEFAULT NULL::text, key text DEFAULT NULL::text, error_text text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, newer_than interval DEFAULT NULL::interval, everything boolean DEFAULT false, max_messages bigint DEFAULT NULL::bigint, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text, dry_run boolean DEFAULT false, rate integer DEFAULT NULL::integer, batch integer DEFAULT 500, operation bigint DEFAULT NULL::bigint, states text[] DEFAULT NULL::text[], OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    filter jsonb;
begin
    if operation is null then
        if destination is null or destination !~ '^[a-z0-9_-]{1,64}$' then
            raise invalid_parameter_value using message = format('destination %L: must be 1 to 64 of the characters a-z 0-9 _ -', destination);
        end if;
        if not states <@ '{delivered,dropped,expired,discarded}' then
            raise invalid_parameter_value using message = format('states %L: must be some of delivered, dropped, expired, discarded', states);
        end if;
        filter := "outbox".change_filter(ids, topic, key, null, error_text, older_than, newer_than, everything, max_messages, states)
            || jsonb_build_object('states', coalesce(states, '{delivered}'), 'destination', destination);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.bare, c.more into operation_id, matched, changed, held, bare, more
    from "outbox".change('replay', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$_$;


--
-- Name: FUNCTION replay(destination text, ids uuid[], topic text, key text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.replay(destination text, ids uuid[], topic text, key text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) IS 'Archived messages are delivered again, to one destination: the generation one higher, their keys held there from now on. held are under way already, bare were kept without payload. Ages count from the end of a message. One batch: while more is true, call it again with operation => operation_id.';


--
-- Name: replay_rows(bigint[], jsonb, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, OUT changed bigint, OUT held bigint, OUT bare bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
begin
    with newest as materialized (
        select distinct on (a.seq) a.seq, a.generation, a.ended_at, a.payload is null as bare,
               exists (select from "outbox".message m where m.seq = a.seq)
               or exists (select from "outbox".waiting w where w.seq = a.seq)
               or exists (select from "outbox".dead d where d.seq = a.seq) as held
        from "outbox".archive a
        where a.seq = any (p_seqs)
        order by a.seq, a.generation desc, a.ended_at desc
    ), replayed as (
        insert into "outbox".waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, published_at,
            generation, holds, destination, available_at)
        select a.seq, a.id, a.topic, a.key, a.payload, a.headers, a.dedup_key, a.max_attempts, a.broker_ttl, a.published_at,
            a.generation + 1, a.key is not null, p_filter ->> 'destination', clock_timestamp()
        from newest n
        join lateral (
            select a.* from "outbox".archive a where a.seq = n.seq and a.generation = n.generation and a.ended_at = n.ended_at limit 1
        ) a on true
        where not n.bare and not n.held and not p_dry_run
        returning 1
    )
    select (select count(*) from replayed), count(*) filter (where n.held), count(*) filter (where n.bare and not n.held)
    into changed, held, bare
    from newest n;
end
$$;


--
-- Name: FUNCTION replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, OUT changed bigint, OUT held bigint, OUT bare bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, OUT changed bigint, OUT held bigint, OUT bare bigint) IS 'Internal: replays these messages, under the claim lock.';


--
-- Name: reroute_rows(bigint[], jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.reroute_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_now  constant timestamptz := clock_timestamp();
    v_rows record;
begin
    select * into v_rows from "outbox".unheld_rows(array(
        select w.seq from "outbox".waiting w where w.seq = any (p_seqs) and w.destination = p_filter ->> 'destination'));
    update "outbox".waiting w
    set destination = null, available_at = v_now, holds = w.key is not null,
        lapses = case when w.seq in (
            select u.seq from "outbox".claim c cross join lateral unnest(c.seqs) u(seq)
            where c.id = any (v_rows.lost) and c.lapses + (c.relay is not null)::int >= 2) then 2 else w.lapses end
    where w.seq = any (v_rows.free);
    get diagnostics changed = row_count;
    held := cardinality(v_rows.held);
    perform "outbox".take_over(v_rows.lost, v_rows.free);
end
$$;


--
-- Name: FUNCTION reroute_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.reroute_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) IS 'Internal: lets the routes decide again where these messages go, under the claim lock.';


--
-- Name: resume(text, text, text, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.resume(topic text DEFAULT NULL::text, destination text DEFAULT NULL::text, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
declare
    operation_id bigint;
    given text := case when topic is not null then 'topic' else 'destination' end;
begin
    perform "outbox".check_pause(topic, destination);
    delete from "outbox".control c where c.scope = given and c.name = coalesce(topic, destination);
    if not found then
        return null;
    end if;
    insert into "outbox".operation (verb, filter, state, actor, reason, counts, finished_at)
    values ('resume', jsonb_build_object(given, coalesce(topic, destination)), 'done', coalesce(nullif(actor, ''), session_user),
        reason, '{"changed": 1}', clock_timestamp())
    returning id into operation_id;
    perform "outbox".wake_relays();
    return operation_id;
end
$$;


--
-- Name: FUNCTION resume(topic text, destination text, actor text, reason text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.resume(topic text, destination text, actor text, reason text) IS 'Ends the pause of exactly this topic pattern or destination. Returns the operation''s id; null: it was not paused.';


--
-- Name: retry(uuid[], text, text, text, text, interval, interval, boolean, bigint, text, text, boolean, integer, integer, bigint, text, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.retry(ids uuid[] DEFAULT NULL::uuid[], topic text DEFAULT NULL::text, key text DEFAULT NULL::text, error_class text DEFAULT NULL::text, error_text text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, newer_than interval DEFAULT NULL::interval, everything boolean DEFAULT false, max_messages bigint DEFAULT NULL::bigint, actor text DEFAULT NULL::text, reason text DEFAULT NULL::text, dry_run boolean DEFAULT false, rate integer DEFAULT NULL::integer, batch integer DEFAULT 500, operation bigint DEFAULT NULL::bigint, destination text DEFAULT NULL::text, by_route boolean DEFAULT false, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    filter jsonb;
begin
    if operation is null then
        filter := "outbox".change_filter(ids, topic, key, error_class, error_text, older_than, newer_than, everything, max_messages,
            null, destination, by_route);
    end if;
    select c.operation_id, c.matched, c.changed, c.held, c.more into operation_id, matched, changed, held, more
    from "outbox".change('retry', filter, actor, reason, dry_run, rate, batch, operation) c;
end
$$;


--
-- Name: FUNCTION retry(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.retry(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) IS 'Messages that wait for another attempt are due now; their attempts stay. A scheduled one keeps its time unless it is named by its id. destination: those that a replay has bound to it; by_route ends the binding of all of them, due or not, but for those that a live relay holds. One batch: while more is true, call it again with operation => operation_id.';


--
-- Name: retry_rows(bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.retry_rows(p_seqs bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_now     constant timestamptz := clock_timestamp();
    v_changed bigint;
begin
    update "outbox".waiting w set available_at = v_now where w.seq = any (p_seqs) and w.available_at > v_now;
    get diagnostics v_changed = row_count;
    return v_changed;
end
$$;


--
-- Name: FUNCTION retry_rows(p_seqs bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.retry_rows(p_seqs bigint[]) IS 'Internal: makes these messages due, under the claim lock.';


--
-- Name: seq_at(timestamp with time zone); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.seq_at(p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_low  bigint := (select m.seq from "outbox".message m order by m.seq limit 1);
    v_high bigint := (select m.seq from "outbox".message m order by m.seq desc limit 1);
    v_mid  bigint;
    v_row  record;
begin
    while v_low < v_high loop
        v_mid := (v_low + v_high) / 2;
        select m.seq, m.published_at into v_row from "outbox".message m where m.seq >= v_mid order by m.seq limit 1;
        if v_row.published_at < p_at then
            v_low := v_row.seq + 1;
        else
            v_high := v_mid;
        end if;
    end loop;
    return v_low;
end
$$;


--
-- Name: FUNCTION seq_at(p_at timestamp with time zone); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.seq_at(p_at timestamp with time zone) IS 'Internal: where in the message table a time begins.';


--
-- Name: set_archive(text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.set_archive(mode text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    insert into "outbox".setting as s (name, value) values ('archive', mode)
    on conflict (name) do update set value = excluded.value where s.value <> excluded.value;
end
$$;


--
-- Name: FUNCTION set_archive(mode text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.set_archive(mode text) IS 'What is kept of messages that operators discard: off, bare (without payload), full.';


--
-- Name: set_notify(text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.set_notify(mode text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if mode is null or mode not in ('publish', 'trigger', 'off') then
        raise invalid_parameter_value using message = format('notify mode %L: must be publish, trigger or off', mode);
    end if;
    insert into "outbox".setting (name, value) values ('notify', mode)
    on conflict (name) do update set value = excluded.value;
    drop trigger if exists notify_relays on "outbox".message;
    drop trigger if exists notify_relays on "outbox".waiting;
    if mode = 'trigger' then
        create trigger notify_relays after insert on "outbox".message
            for each statement execute function "outbox".notify_relays();
        create trigger notify_relays after insert on "outbox".waiting
            for each statement execute function "outbox".notify_relays();
    end if;
end
$$;


--
-- Name: FUNCTION set_notify(mode text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.set_notify(mode text) IS 'How publishing wakes relays: publish (the publish functions notify), trigger (every insert notifies), off.';


--
-- Name: settle(uuid, bigint[], uuid[], bigint[], text[], integer[], bigint[], text[], text[], boolean, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.settle(p_relay uuid, p_claims bigint[], p_tokens uuid[], p_seqs bigint[], p_kinds text[], p_attempts integer[], p_delays bigint[], p_classes text[], p_texts text[], p_notify boolean, p_keep boolean, OUT results text[], OUT lanes text[], OUT keys text[], OUT refused text) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_now      timestamptz := clock_timestamp();
    v_ended    bigint[];
    v_moved    bigint[];
    v_returned bigint[];
    v_gone     bigint[];
begin
    perform "outbox".plan_settings();
    if 'given_back' = any (p_kinds) then
        -- Inserts a claim row, which happens under the claim lock only: readers of the ledger rely on ids.
        perform "outbox".claim_lock();
    end if;
    perform from "outbox".claim c
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay
    order by c.id
    for key share;

    select array_agg(r.result order by r.n),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('delivered', 'dropped', 'expired')),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('retried', 'died', 'parked')),
           array_agg(r.seq) filter (where r.result = 'settled' and r.kind in ('unlisted', 'given_back')),
           array_agg(r.seq) filter (where r.result = 'settled')
    into results, v_ended, v_moved, v_returned, v_gone
    from (
        -- By hashed sets: a search of the claim's list for each message would take the square of it.
        select o.n, o.seq, o.kind, case
                   when (o.claim, o.token, o.seq) in (
                       select c.id, c.token, l.seq
                       from "outbox".claim c, unnest(c.seqs) l(seq)
                       where c.id = any (p_claims) and c.relay = p_relay) then 'settled'
                   when (o.claim, o.token) in (
                       select c.id, c.token from "outbox".claim c where c.id = any (p_claims) and c.relay = p_relay) then 'before'
                   when exists (select from "outbox".message m where m.seq = o.seq)
                     or exists (select from "outbox".waiting w where w.seq = o.seq) then 'fenced'
                   else 'before'
               end as result
        from unnest(p_claims, p_tokens, p_seqs, p_kinds) with ordinality o(claim, token, seq, kind, n)
    ) r;
    if v_gone is null then
        return;
    end if;

    if v_ended is not null and p_keep is not null then
        select a.refused into refused
        from (
            select array_agg(o.seq) as seqs, array_agg(o.kind) as kinds, array_agg(o.text) as texts, array_agg(c.destination) as destinations
            from unnest(p_claims, p_seqs, p_kinds, p_texts) o(claim, seq, kind, text)
            cross join lateral (select c.destination from "outbox".claim c where c.id = o.claim limit 1) c
            where o.seq = any (v_ended)
        ) e
        cross join lateral "outbox".archive_rows(e.seqs, e.kinds, e.texts, e.destinations, null, p_keep, v_now) a;
    elsif v_ended is not null then
        delete from "outbox".message m where m.seq = any (v_ended);
        delete from "outbox".waiting w where w.seq = any (v_ended);
    end if;
    if v_moved is not null then
        perform "outbox".fail(v_moved, p_seqs, p_kinds, p_attempts, p_delays, p_classes, p_texts, v_now);
    end if;
    if v_returned is not null then
        -- A scheduled row that was claimed once holds its key from then on.
        update "outbox".waiting w set holds = true
        where w.seq = any (v_returned) and w.key is not null and not w.holds;
        select array_agg(k.destination), array_agg(k.key) into lanes, keys
        from (
            select distinct c.destination, m.key
            from unnest(p_claims, p_seqs, p_kinds) o(claim, seq, kind)
            cross join lateral (select c.destination from "outbox".claim c where c.id = o.claim limit 1) c
            cross join lateral (
                select m.key from "outbox".message m where m.seq = o.seq and m.key is not null limit 1
            ) m
            where o.kind = 'unlisted' and o.seq = any (v_returned)
        ) k;
        perform "outbox".give_back(p_claims, p_seqs, p_kinds, v_gone);
    end if;

    if v_moved is not null or v_returned is not null then
        perform "outbox".discard_awaited(coalesce(v_moved, '{}') || coalesce(v_returned, '{}'));
    end if;

    update "outbox".claim c
    set (seqs, keys) = (select w.seqs, w.keys from "outbox".without(c.seqs, c.keys, v_gone) w)
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay;
    delete from "outbox".claim c
    where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay and c.seqs = '{}';
    if p_notify and v_returned is not null then
        perform pg_notify('outbox', '');
    end if;
end
$$;


--
-- Name: settle_delivered(uuid, bigint[], uuid[], boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.settle_delivered(p_relay uuid, p_claims bigint[], p_tokens uuid[], p_keep boolean, OUT ids bigint[], OUT refused text) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_seqs         bigint[];
    v_destinations text[];
    v_gone         int;
begin
    perform "outbox".plan_settings();
    with settled as (
        delete from "outbox".claim c
        where c.id = any (p_claims) and c.token = any (p_tokens) and c.relay = p_relay
        returning c.id, c.seqs, c.destination
    )
    select array_agg(distinct s.id), array_agg(u.seq), array_agg(s.destination) filter (where p_keep is not null)
    into ids, v_seqs, v_destinations
    from settled s, unnest(s.seqs) u(seq);
    if p_keep is null then
        delete from "outbox".message m where m.seq = any (v_seqs);
        get diagnostics v_gone = row_count;
        if v_gone < cardinality(v_seqs) then
            delete from "outbox".waiting w where w.seq = any (v_seqs);
        end if;
    elsif v_seqs is not null then
        refused := (select a.refused from "outbox".archive_rows(v_seqs, array_fill('delivered'::text, array[cardinality(v_seqs)]),
            null, v_destinations, null, p_keep, clock_timestamp()) a);
    end if;
end
$$;


--
-- Name: settle_tx(uuid, bigint, uuid, bigint, boolean); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.settle_tx(p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint, p_keep boolean) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
declare
    v_listed      boolean;
    v_destination text;
    v_gone        bigint;
    v_more        bigint := 0;
    v_refused     text;
begin
    select p_seq = any (c.seqs), c.destination into v_listed, v_destination
    from "outbox".claim c
    where c.id = p_claim and c.token = p_token and c.relay = p_relay
    for key share;
    if v_listed is null then
        return 'fenced';
    end if;
    if not v_listed then
        return 'before';
    end if;
    if p_keep is not null then
        select a.ended, a.refused into v_gone, v_refused
        from "outbox".archive_rows(array[p_seq], array['delivered'], null, array[v_destination], null, p_keep, clock_timestamp()) a;
        if v_refused is not null then -- no reason to undo what the handler did
            raise warning 'outbox: message % is settled, but not kept: %', p_seq, v_refused;
        end if;
    else
        delete from "outbox".message m where m.seq = p_seq;
        get diagnostics v_gone = row_count;
        delete from "outbox".waiting w where w.seq = p_seq;
        get diagnostics v_more = row_count;
    end if;
    return case v_gone + v_more when 1 then 'settled' else 'before' end;
end
$$;


--
-- Name: FUNCTION settle_tx(p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint, p_keep boolean); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.settle_tx(p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint, p_keep boolean) IS 'Internal: settles a message in its handler''s transaction. Returns settled, or why not: before, fenced.';


--
-- Name: sweep(uuid, text, text, bigint, bigint, integer); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.sweep(p_relay uuid, p_destination text, p_stop text, p_from bigint, p_to bigint, p_rows integer, OUT reached bigint, OUT seqs bigint[], OUT keys text[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_take text;
    v_free text;
begin
    perform "outbox".plan_settings();
    select r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_take, v_free
    from "outbox".relay r where r.id = p_relay;
    with page as materialized (
        select p.seq, p.key, p.mine and p.seq not in (select l.seq from "outbox".listed(0) l(seq)) as found
        from (
            select m.seq, case when m.topic ~ v_free then null else m.key end as key, m.topic ~ v_take and (p_stop is null or m.topic !~ p_stop) as mine
            from "outbox".message m
            where m.seq >= p_from and m.seq < p_to
            order by m.seq
            limit p_rows
        ) p
        limit 10000
    )
    select case when count(*) = p_rows then max(p.seq) + 1 end,
           array_agg(p.seq) filter (where p.found and p.key is null),
           array_agg(distinct p.key) filter (where p.found and p.key is not null)
    into reached, seqs, keys
    from page p;
end
$$;


--
-- Name: take_dedup_key(text, text, uuid, bigint); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.take_dedup_key(topic text, dedup_key text, id uuid, seq bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    held     "outbox".dedup;
    is_taken boolean;
    free_at  timestamptz := clock_timestamp() + coalesce(
        (select s.value::interval from "outbox".setting s where s.name = 'dedup_window'), interval '0');
begin
    loop
        insert into "outbox".dedup (topic, dedup_key, id, seq, expires_at)
        values (take_dedup_key.topic, take_dedup_key.dedup_key, take_dedup_key.id, take_dedup_key.seq, free_at)
        on conflict on constraint dedup_pkey do nothing;
        if found then
            return true;
        end if;

        select * into held from "outbox".dedup d
        where d.topic = take_dedup_key.topic and d.dedup_key = take_dedup_key.dedup_key
        for update;
        continue when not found; -- the janitor was faster

        is_taken := held.expires_at > clock_timestamp()
            or exists (select from "outbox".message m where m.seq = held.seq)
            or exists (select from "outbox".waiting w where w.seq = held.seq)
            or exists (select from "outbox".dead x where x.seq = held.seq);
        if is_taken then
            return false;
        end if;

        update "outbox".dedup d
        set id = take_dedup_key.id, seq = take_dedup_key.seq, expires_at = free_at
        where d.topic = take_dedup_key.topic and d.dedup_key = take_dedup_key.dedup_key;
        return true;
    end loop;
end
$$;


--
-- Name: FUNCTION take_dedup_key(topic text, dedup_key text, id uuid, seq bigint); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.take_dedup_key(topic text, dedup_key text, id uuid, seq bigint) IS 'Internal: registers a dedup key, or a caller''s own id as topic '''' and the id as key; false: it is taken.';


--
-- Name: take_over(bigint[], bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.take_over(lost bigint[], taken bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    update "outbox".claim c
    set (seqs, keys) = (select w.seqs, w.keys from "outbox".without(c.seqs, c.keys, taken) w),
        lapses = c.lapses + (c.relay is not null)::int,
        relay = null
    where c.id = any (lost) and c.seqs && taken;
    delete from "outbox".claim c
    where c.id = any (lost)
      and not exists (select from unnest(c.seqs) s(seq) join "outbox".message m on m.seq = s.seq)
      and not exists (select from unnest(c.seqs) s(seq) join "outbox".waiting w on w.seq = s.seq);
end
$$;


--
-- Name: topics_regexp(jsonb); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.topics_regexp(topics jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    with pattern as (
        select p.n, (p.value ->> 'in')::boolean as included, p.value ->> 'pattern' as name,
               replace(replace(replace(p.value ->> 'pattern', '.', '\.'), '*', '[^.]+'), '>', '.+') as re
        from jsonb_array_elements(topics) with ordinality p(value, n)
    ), alternative as (
        select i.n, i.name, i.re,
               (select string_agg(o.re, '|' order by o.n) from pattern o where o.n < i.n and not o.included) as but
        from pattern i
        where i.included
    )
    select case when bool_or(a.name = '>' and a.but is null) then ''
           else '^(?:' || string_agg(coalesce('(?!(?:' || a.but || ')$)', '') || a.re, '|' order by a.n) || ')$' end
    from alternative a
$_$;


--
-- Name: try_claim_lock(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.try_claim_lock() RETURNS boolean
    LANGUAGE sql
    AS $$ select pg_try_advisory_xact_lock(28514, '"outbox".message'::regclass::oid::int) $$;


--
-- Name: unheld_rows(bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.unheld_rows(p_seqs bigint[], OUT lost bigint[], OUT held bigint[], OUT free bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
    lost := array(
        select c.id from "outbox".claim c
        where c.seqs && p_seqs
          and (c.relay is null or c.relay not in (
              select r.id from "outbox".relay r where r.lease_until >= clock_timestamp()))
        for update skip locked);
    held := array(
        select s.seq from unnest(p_seqs) s(seq)
        where s.seq in (select u.seq from "outbox".claim c cross join lateral unnest(c.seqs) u(seq) where c.id <> all (lost)));
    free := array(select s.seq from unnest(p_seqs) s(seq) where s.seq <> all (held));
end
$$;


--
-- Name: FUNCTION unheld_rows(p_seqs bigint[], OUT lost bigint[], OUT held bigint[], OUT free bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.unheld_rows(p_seqs bigint[], OUT lost bigint[], OUT held bigint[], OUT free bigint[]) IS 'Internal: which messages no live relay holds, under the claim lock.';


--
-- Name: untaken_rows(bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.untaken_rows(p_seqs bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    return array(
        select d.seq from "outbox".dead d
        where d.seq = any (p_seqs) and d.destination is not null
          and exists (select from "outbox".relay r where r.lease_until >= clock_timestamp())
          and not exists (
              select from "outbox".relay r
              where r.lease_until >= clock_timestamp() and d.topic ~ (r.destinations -> d.destination ->> 'take')));
end
$$;


--
-- Name: FUNCTION untaken_rows(p_seqs bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.untaken_rows(p_seqs bigint[]) IS 'Internal: dead messages that nobody would take where they are bound to.';


--
-- Name: wake_relays(); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.wake_relays() RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select pg_notify('outbox', '')
    where coalesce((select s.value from "outbox".setting s where s.name = 'notify'), 'publish') <> 'off'
$$;


--
-- Name: FUNCTION wake_relays(); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.wake_relays() IS 'Internal: tells relays that there may be something to claim.';


--
-- Name: with_content_type(jsonb, text); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.with_content_type(headers jsonb, content_type text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    given text;
begin
    if content_type is null or jsonb_typeof(headers) <> 'object' then
        return headers; -- what is not an object is refused by the table's CHECK, which has a name
    end if;
    select h.value into given from jsonb_each_text(headers) h(name, value) where lower(h.name) = 'content-type';
    if not found then
        return headers || jsonb_build_object('content-type', content_type);
    end if;
    if given is distinct from content_type then
        raise invalid_parameter_value using
            message = format('content_type is %L, but the header content-type says %L', content_type, given);
    end if;
    return headers;
end
$$;


--
-- Name: FUNCTION with_content_type(headers jsonb, content_type text); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.with_content_type(headers jsonb, content_type text) IS 'Internal: headers with the content type among them.';


--
-- Name: without(bigint[], integer[], bigint[]); Type: FUNCTION; Schema: outbox; Owner: -
--

CREATE FUNCTION outbox.without(seqs bigint[], keys integer[], gone bigint[]) RETURNS TABLE(seqs bigint[], keys integer[])
    LANGUAGE sql IMMUTABLE
    AS $_$
    select coalesce(array_agg(l.seq order by l.n), '{}'), coalesce(array_agg(l.key order by l.n), '{}')
    from unnest($1, $2) with ordinality l(seq, key, n)
    where l.seq not in (select g.seq from unnest($3) g(seq))
$_$;


--
-- Name: FUNCTION without(seqs bigint[], keys integer[], gone bigint[]); Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON FUNCTION outbox.without(seqs bigint[], keys integer[], gone bigint[]) IS 'What is left of a claim''s lists.';


SET default_tablespace = '';

--
-- Name: archive; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.archive (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    payload bytea,
    headers jsonb NOT NULL,
    dedup_key text,
    max_attempts integer,
    broker_ttl interval,
    expires_at timestamp with time zone,
    published_at timestamp with time zone NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    destination text,
    outcome text NOT NULL,
    detail text,
    actor text,
    ended_at timestamp with time zone NOT NULL,
    CONSTRAINT archive_outcome CHECK ((outcome = ANY (ARRAY['delivered'::text, 'dropped'::text, 'expired'::text, 'discarded'::text])))
)
PARTITION BY RANGE (ended_at);


--
-- Name: TABLE archive; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.archive IS 'Ended messages, when they are kept; one that was replayed is here once per generation.';


--
-- Name: COLUMN archive.payload; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.archive.payload IS 'null: it was not kept';


--
-- Name: COLUMN archive.attempts; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.archive.attempts IS 'the one that delivered it included';


--
-- Name: COLUMN archive.detail; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.archive.detail IS 'why it was dropped or discarded';


--
-- Name: COLUMN archive.actor; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.archive.actor IS 'who discarded it';


SET default_table_access_method = heap;

--
-- Name: archive_default; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.archive_default (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    payload bytea,
    headers jsonb NOT NULL,
    dedup_key text,
    max_attempts integer,
    broker_ttl interval,
    expires_at timestamp with time zone,
    published_at timestamp with time zone NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    destination text,
    outcome text NOT NULL,
    detail text,
    actor text,
    ended_at timestamp with time zone NOT NULL,
    CONSTRAINT archive_outcome CHECK ((outcome = ANY (ARRAY['delivered'::text, 'dropped'::text, 'expired'::text, 'discarded'::text])))
);


--
-- Name: TABLE archive_default; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.archive_default IS 'Rows whose partition does not exist.';


--
-- Name: claim; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.claim (
    id bigint NOT NULL,
    token uuid NOT NULL,
    relay uuid,
    beat bigint NOT NULL,
    destination text NOT NULL,
    seqs bigint[] NOT NULL,
    keys integer[] NOT NULL,
    floor bigint NOT NULL,
    lapses integer DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT claim_pairs CHECK ((cardinality(seqs) = cardinality(keys)))
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY outbox.claim ALTER COLUMN seqs SET STORAGE EXTERNAL;
ALTER TABLE ONLY outbox.claim ALTER COLUMN keys SET STORAGE EXTERNAL;


--
-- Name: TABLE claim; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.claim IS 'The ledger: which messages are held, by which relay. New rows are inserted only under the claim lock, so ids are in commit order.';


--
-- Name: COLUMN claim.token; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.token IS 'made by the relay, names the claim request';


--
-- Name: COLUMN claim.relay; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.relay IS 'null: given back, or what is left of a claim that was taken over';


--
-- Name: COLUMN claim.beat; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.beat IS 'the relay''s beat at the time of the claim';


--
-- Name: COLUMN claim.keys; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.keys IS 'per seq the hash of its key; null without order';


--
-- Name: COLUMN claim.floor; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.floor IS 'where the window of this claim ended; a hint for other relays';


--
-- Name: COLUMN claim.lapses; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.claim.lapses IS 'how often a relay died while it held these messages: from 2 on there is one, or they are taken over one at a time';


--
-- Name: claim_id_seq; Type: SEQUENCE; Schema: outbox; Owner: -
--

ALTER TABLE outbox.claim ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME outbox.claim_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: control; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.control (
    scope text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    reason text,
    actor text,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT control_name CHECK (((scope <> 'topic'::text) OR (name ~ '^(([A-Za-z0-9_-]+|\*)\.)*([A-Za-z0-9_-]+|\*|>)$'::text))),
    CONSTRAINT control_scope CHECK ((scope = ANY (ARRAY['topic'::text, 'destination'::text])))
);


--
-- Name: TABLE control; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.control IS 'Pauses: a topic pattern or a destination that no relay claims from. Its messages still hold their keys.';


--
-- Name: dead; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.dead (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    payload bytea NOT NULL,
    headers jsonb NOT NULL,
    dedup_key text,
    max_attempts integer,
    broker_ttl interval,
    expires_at timestamp with time zone,
    published_at timestamp with time zone NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    lapses integer DEFAULT 0 NOT NULL,
    holds boolean DEFAULT false NOT NULL,
    destination text,
    available_at timestamp with time zone,
    first_failed_at timestamp with time zone,
    failed_at timestamp with time zone,
    error_class text,
    last_error text,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: TABLE dead; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.dead IS 'Dead letters: no further attempt unless an operator redrives them.';


--
-- Name: COLUMN dead.holds; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.dead.holds IS 'a parked key: younger messages wait until this one is redriven or discarded';


--
-- Name: dedup; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.dedup (
    topic text NOT NULL COLLATE pg_catalog."C",
    dedup_key text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    seq bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');


--
-- Name: TABLE dedup; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.dedup IS 'Dedup keys, and caller-given ids as topic '''' with the id as key. A row blocks until it has expired and its message is gone.';


--
-- Name: seq; Type: SEQUENCE; Schema: outbox; Owner: -
--

CREATE SEQUENCE outbox.seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: message; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.message (
    seq bigint DEFAULT nextval('outbox.seq'::regclass) NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    payload bytea NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    dedup_key text,
    max_attempts integer,
    broker_ttl interval,
    expires_at timestamp with time zone,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT message_broker_ttl CHECK ((((broker_ttl > '00:00:00'::interval) IS NOT FALSE) OR outbox.refuse('message_broker_ttl'::text))),
    CONSTRAINT message_dedup_key CHECK (((((octet_length(dedup_key) >= 1) AND (octet_length(dedup_key) <= 255)) IS NOT FALSE) OR outbox.refuse('message_dedup_key'::text))),
    CONSTRAINT message_headers CHECK ((outbox.headers_valid(headers) OR outbox.refuse('message_headers'::text))),
    CONSTRAINT message_key CHECK ((((((octet_length(key) >= 1) AND (octet_length(key) <= 512)) AND (key !~ '[\x01-\x1f\x7f-\x9f]'::text)) IS NOT FALSE) OR outbox.refuse('message_key'::text))),
    CONSTRAINT message_max_attempts CHECK ((((max_attempts >= 0) IS NOT FALSE) OR outbox.refuse('message_max_attempts'::text))),
    CONSTRAINT message_payload CHECK ((((octet_length(payload) <= 67108864) IS NOT FALSE) OR outbox.refuse('message_payload'::text))),
    CONSTRAINT message_times CHECK ((((isfinite(published_at) AND isfinite(expires_at)) IS NOT FALSE) OR outbox.refuse('message_times'::text))),
    CONSTRAINT message_topic CHECK (((((octet_length(topic) <= 255) AND (topic ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'::text)) IS NOT FALSE) OR outbox.refuse('message_topic'::text, topic)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000', autovacuum_vacuum_cost_delay='0');


--
-- Name: TABLE message; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.message IS 'Ready messages. Publishers insert, settling deletes, nothing ever updates.';


--
-- Name: COLUMN message.seq; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.seq IS 'publish order';


--
-- Name: COLUMN message.id; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.id IS 'UUID, stable over all attempts; what consumers deduplicate by';


--
-- Name: COLUMN message.topic; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.topic IS 'tokens of A-Z a-z 0-9 _ - joined by dots';


--
-- Name: COLUMN message.key; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.key IS 'messages of one key are delivered one after another; null: no order';


--
-- Name: COLUMN message.headers; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.headers IS 'names to string values';


--
-- Name: COLUMN message.dedup_key; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.dedup_key IS 'publishing again with this key and topic is a duplicate';


--
-- Name: COLUMN message.max_attempts; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.max_attempts IS 'null: the relay''s rule, 0: unlimited';


--
-- Name: COLUMN message.broker_ttl; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.broker_ttl IS 'how long a broker keeps the message, from its delivery to it';


--
-- Name: COLUMN message.expires_at; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.message.expires_at IS 'not delivered from then on';


--
-- Name: waiting; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.waiting (
    seq bigint DEFAULT nextval('outbox.seq'::regclass) NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    payload bytea NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    dedup_key text,
    max_attempts integer,
    broker_ttl interval,
    expires_at timestamp with time zone,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    lapses integer DEFAULT 0 NOT NULL,
    holds boolean DEFAULT false NOT NULL,
    destination text,
    available_at timestamp with time zone NOT NULL,
    first_failed_at timestamp with time zone,
    failed_at timestamp with time zone,
    error_class text,
    last_error text,
    CONSTRAINT waiting_broker_ttl CHECK ((((broker_ttl > '00:00:00'::interval) IS NOT FALSE) OR outbox.refuse('waiting_broker_ttl'::text))),
    CONSTRAINT waiting_dedup_key CHECK (((((octet_length(dedup_key) >= 1) AND (octet_length(dedup_key) <= 255)) IS NOT FALSE) OR outbox.refuse('waiting_dedup_key'::text))),
    CONSTRAINT waiting_headers CHECK ((outbox.headers_valid(headers) OR outbox.refuse('waiting_headers'::text))),
    CONSTRAINT waiting_key CHECK ((((((octet_length(key) >= 1) AND (octet_length(key) <= 512)) AND (key !~ '[\x01-\x1f\x7f-\x9f]'::text)) IS NOT FALSE) OR outbox.refuse('waiting_key'::text))),
    CONSTRAINT waiting_max_attempts CHECK ((((max_attempts >= 0) IS NOT FALSE) OR outbox.refuse('waiting_max_attempts'::text))),
    CONSTRAINT waiting_payload CHECK ((((octet_length(payload) <= 67108864) IS NOT FALSE) OR outbox.refuse('waiting_payload'::text))),
    CONSTRAINT waiting_times CHECK ((((isfinite(published_at) AND isfinite(expires_at) AND isfinite(available_at)) IS NOT FALSE) OR outbox.refuse('waiting_times'::text))),
    CONSTRAINT waiting_topic CHECK (((((octet_length(topic) <= 255) AND (topic ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'::text)) IS NOT FALSE) OR outbox.refuse('waiting_topic'::text, topic)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='50000', autovacuum_vacuum_cost_delay='0');


--
-- Name: TABLE waiting; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.waiting IS 'Messages that are not to be delivered before available_at: scheduled, backing off, redriven, replayed.';


--
-- Name: COLUMN waiting.attempts; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.waiting.attempts IS 'failed attempts so far';


--
-- Name: COLUMN waiting.lapses; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.waiting.lapses IS '2 after a crash: it is claimed alone';


--
-- Name: COLUMN waiting.holds; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.waiting.holds IS 'younger messages of the key wait for this one';


--
-- Name: COLUMN waiting.destination; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.waiting.destination IS 'bound to it by a replay: only its lanes take it; null: by route';


--
-- Name: stored; Type: VIEW; Schema: outbox; Owner: -
--

CREATE VIEW outbox.stored AS
 SELECT 'message'::text AS place,
    m.seq,
    m.id,
    m.topic,
    m.key,
    'ready'::text AS state,
    0 AS generation,
    0 AS attempts,
    (m.key IS NOT NULL) AS holds,
    NULL::text AS destination,
    NULL::timestamp with time zone AS available_at,
    NULL::text AS error_class,
    NULL::text AS last_error,
    NULL::text AS actor,
    m.published_at,
    m.expires_at,
    NULL::timestamp with time zone AS ended_at,
    m.headers,
    m.payload
   FROM outbox.message m
UNION ALL
 SELECT 'waiting'::text AS place,
    w.seq,
    w.id,
    w.topic,
    w.key,
    'waiting'::text AS state,
    w.generation,
    w.attempts,
    w.holds,
    w.destination,
    w.available_at,
    w.error_class,
    w.last_error,
    NULL::text AS actor,
    w.published_at,
    w.expires_at,
    NULL::timestamp with time zone AS ended_at,
    w.headers,
    w.payload
   FROM outbox.waiting w
UNION ALL
 SELECT 'dead'::text AS place,
    d.seq,
    d.id,
    d.topic,
    d.key,
    'dead'::text AS state,
    d.generation,
    d.attempts,
    d.holds,
    d.destination,
    NULL::timestamp with time zone AS available_at,
    d.error_class,
    d.last_error,
    NULL::text AS actor,
    d.published_at,
    d.expires_at,
    d.died_at AS ended_at,
    d.headers,
    d.payload
   FROM outbox.dead d
UNION ALL
 SELECT 'archive'::text AS place,
    a.seq,
    a.id,
    a.topic,
    a.key,
    a.outcome AS state,
    a.generation,
    a.attempts,
    false AS holds,
    a.destination,
    NULL::timestamp with time zone AS available_at,
    NULL::text AS error_class,
    a.detail AS last_error,
    a.actor,
    a.published_at,
    a.expires_at,
    a.ended_at,
    a.headers,
    a.payload
   FROM outbox.archive a;


--
-- Name: VIEW stored; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON VIEW outbox.stored IS 'Internal: every message in one form. People read "outbox".messages.';


--
-- Name: messages; Type: VIEW; Schema: outbox; Owner: -
--

CREATE VIEW outbox.messages AS
 SELECT
        CASE
            WHEN ((s.place = ANY (ARRAY['message'::text, 'waiting'::text])) AND (s.seq IN ( SELECT unnest(c.seqs) AS unnest
               FROM outbox.claim c
              WHERE (c.relay IS NOT NULL)))) THEN 'in_flight'::text
            ELSE s.state
        END AS state,
    s.id,
    s.topic,
    s.key,
    s.attempts,
    s.available_at,
    s.last_error,
    s.published_at,
    outbox.payload_text(s.payload) AS payload_text
   FROM outbox.stored s;


--
-- Name: VIEW messages; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON VIEW outbox.messages IS 'Messages for people: ready, in_flight, waiting, dead, and, as far as they are kept, delivered, dropped, expired, discarded.';


--
-- Name: COLUMN messages.payload_text; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.messages.payload_text IS 'null if it is no UTF-8 text, or was not kept';


--
-- Name: migration; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.migration (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    min_compatible integer NOT NULL
);


--
-- Name: TABLE migration; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.migration IS 'Applied migrations. min_compatible is the lowest schema version whose programs still work with this one.';


--
-- Name: operation; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.operation (
    id bigint NOT NULL,
    verb text NOT NULL,
    filter jsonb DEFAULT '{}'::jsonb NOT NULL,
    cursor jsonb,
    rate integer,
    state text NOT NULL,
    actor text,
    reason text,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT operation_rate CHECK ((rate > 0)),
    CONSTRAINT operation_state CHECK ((state = ANY (ARRAY['running'::text, 'waiting'::text, 'done'::text])))
);


--
-- Name: TABLE operation; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.operation IS 'What operators did: who, why, with what counts.';


--
-- Name: COLUMN operation.filter; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.operation.filter IS 'which messages; ages as times, ids also as seqs';


--
-- Name: COLUMN operation.cursor; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.operation.cursor IS 'how far it has come: everything up to seq of the table has been looked at';


--
-- Name: COLUMN operation.rate; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.operation.rate IS 'messages a second, kept by whoever calls';


--
-- Name: COLUMN operation.state; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.operation.state IS 'running: to be continued; waiting: a discard of messages in flight; done';


--
-- Name: COLUMN operation.counts; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.operation.counts IS 'matched, changed, held (left alone, by a discard since a live relay holds it), bare (not replayed for want of its payload)';


--
-- Name: operation_id_seq; Type: SEQUENCE; Schema: outbox; Owner: -
--

ALTER TABLE outbox.operation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME outbox.operation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: relay; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.relay (
    id uuid NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    lease interval NOT NULL,
    beat bigint NOT NULL,
    streaming boolean DEFAULT false NOT NULL,
    stream jsonb DEFAULT '{}'::jsonb NOT NULL,
    samples boolean DEFAULT false NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    engine text NOT NULL,
    destinations jsonb NOT NULL,
    faults jsonb DEFAULT '{}'::jsonb NOT NULL,
    counters jsonb DEFAULT '{}'::jsonb NOT NULL,
    settings_digest text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');


--
-- Name: TABLE relay; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.relay IS 'Live relays. The lease covers all claims of the relay; a claim call removes relays whose lease has lapsed.';


--
-- Name: COLUMN relay.beat; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.beat IS 'counts heartbeats';


--
-- Name: COLUMN relay.streaming; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.streaming IS 'its lanes get new messages from the WAL; one relay does at a time';


--
-- Name: COLUMN relay.stream; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.stream IS 'what the WAL engine of the relay does, as of seen_at; empty for the other engine';


--
-- Name: COLUMN relay.samples; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.samples IS 'it exports what the relay finds that looks at the outbox for all, so it had better be this one';


--
-- Name: COLUMN relay.destinations; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.destinations IS 'per lane: topics and unordered (patterns, the first that covers a topic decides), take and free (the same as regular expressions; empty: every topic, null: none)';


--
-- Name: COLUMN relay.faults; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON COLUMN outbox.relay.faults IS 'lanes whose destination takes no messages: misconfigured, and the reason; the one without a name is the archive';


--
-- Name: setting; Type: TABLE; Schema: outbox; Owner: -
--

CREATE TABLE outbox.setting (
    name text NOT NULL,
    value text NOT NULL,
    CONSTRAINT setting_archive CHECK (((name <> 'archive'::text) OR (value = ANY (ARRAY['off'::text, 'bare'::text, 'full'::text])))),
    CONSTRAINT setting_lock_keys CHECK (((name <> 'lock_keys'::text) OR (value = ANY (ARRAY['on'::text, 'off'::text])))),
    CONSTRAINT setting_name CHECK ((name = ANY (ARRAY['payload_max'::text, 'dedup_window'::text, 'notify'::text, 'lock_keys'::text, 'archive'::text, 'home'::text])))
);


--
-- Name: TABLE setting; Type: COMMENT; Schema: outbox; Owner: -
--

COMMENT ON TABLE outbox.setting IS 'Settings that the SQL functions read: payload_max in bytes, dedup_window as an interval, notify: publish, trigger or off, lock_keys: on or off, archive: off, bare or full, what relays keep of ended messages, and home, which database the outbox was made in.';


--
-- Name: archive_default; Type: TABLE ATTACH; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.archive ATTACH PARTITION outbox.archive_default DEFAULT;


--
-- Data for Name: archive_default; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.archive_default VALUES (15, '01a22d87-d425-78bc-b6b9-d7195b7ca91c', 'up.kept', 'up.kept', '\x6b6570742031', '{"Label": "kept 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.117689+00', 0, 1, 'lane', 'delivered', NULL, NULL, '2026-11-30 17:36:46.261203+00');
INSERT INTO outbox.archive_default VALUES (16, '01a22d87-d426-75aa-a8ad-0a6e4399e574', 'up.kept', 'up.kept', '\x6b6570742032', '{"Label": "kept 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.118464+00', 0, 1, 'lane', 'delivered', NULL, NULL, '2026-11-30 17:36:46.261203+00');


--
-- Data for Name: claim; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.claim OVERRIDING SYSTEM VALUE VALUES (1, '01a22d87-d433-76b0-a2e3-d243b8f2b095', '01a22d87-d426-7dad-82ed-2c436851281f', 1, 'lane', '{5,6}', '{1318119338,1318119338}', 17, 0, '2026-11-30 17:36:46.139525+00');


--
-- Data for Name: control; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.control VALUES ('topic', 'up.paused', 'recorded', 'test', '2026-11-30 17:36:46.265296+00');


--
-- Data for Name: dead; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.dead VALUES (10, '01a22d87-d421-74e3-b80b-58255cdf4061', 'up.dead', NULL, '\x646561642031', '{"Label": "dead 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.113432+00', 0, 3, 0, false, NULL, NULL, '2026-11-30 17:36:46.216939+00', '2026-11-30 17:36:46.216939+00', 'error', 'as recorded', '2026-11-30 17:36:46.216939+00');
INSERT INTO outbox.dead VALUES (11, '01a22d87-d422-74fc-868e-d9cf7d08efef', 'up.dead', NULL, '\x646561642032', '{"Label": "dead 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.11453+00', 0, 3, 0, false, NULL, NULL, '2026-11-30 17:36:46.216939+00', '2026-11-30 17:36:46.216939+00', 'error', 'as recorded', '2026-11-30 17:36:46.216939+00');
INSERT INTO outbox.dead VALUES (12, '01a22d87-d423-758a-8094-5385c62a5094', 'up.parked', 'up.parked', '\x7061726b65642031', '{"Label": "parked 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.115502+00', 0, 3, 0, true, NULL, NULL, '2026-11-30 17:36:46.236207+00', '2026-11-30 17:36:46.236207+00', 'error', 'as recorded', '2026-11-30 17:36:46.236207+00');


--
-- Data for Name: dedup; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.dedup VALUES ('up.ready', 'once', '01a22d87-d414-77ad-8752-f8cab5e2768a', 4, '2026-11-30 17:36:46.10257+00');


--
-- Data for Name: message; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.message VALUES (1, '01a22d87-d40b-7944-a25b-27ef776178b5', 'up.ready', 'up.ready', '\x72656164792031', '{"Label": "ready 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.093878+00');
INSERT INTO outbox.message VALUES (2, '01a22d87-d412-7166-9fb8-4ec0a49632f1', 'up.ready', 'up.ready', '\x72656164792032', '{"Label": "ready 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.098396+00');
INSERT INTO outbox.message VALUES (3, '01a22d87-d413-78a2-9142-3a10e1efb634', 'up.ready', 'up.ready', '\x72656164792033', '{"Label": "ready 3"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.09976+00');
INSERT INTO outbox.message VALUES (4, '01a22d87-d414-77ad-8752-f8cab5e2768a', 'up.ready', NULL, '\x72656164792034', '{"Label": "ready 4", "content-type": "text/plain"}', 'once', 7, '01:00:00', NULL, '2026-11-30 17:36:46.103182+00');
INSERT INTO outbox.message VALUES (5, '01a22d87-d419-7e69-8e6f-817f8419ad49', 'up.flight', 'up.flight', '\x666c696768742031', '{"Label": "flight 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.106178+00');
INSERT INTO outbox.message VALUES (6, '01a22d87-d41b-7786-a300-fda5f2a0ddc4', 'up.flight', 'up.flight', '\x666c696768742032', '{"Label": "flight 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.107699+00');
INSERT INTO outbox.message VALUES (8, '01a22d87-d41d-771a-a205-792e02c887f7', 'up.retry', 'up.retry', '\x72657472792032', '{"Label": "retry 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.109571+00');
INSERT INTO outbox.message VALUES (13, '01a22d87-d423-7f0b-b572-8423b27eb7f6', 'up.parked', 'up.parked', '\x7061726b65642032', '{"Label": "parked 2"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.116132+00');
INSERT INTO outbox.message VALUES (14, '01a22d87-d424-79d1-80f7-7a6a5d4acdc8', 'up.paused', 'up.paused', '\x7061757365642031', '{"Label": "paused 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.116872+00');


--
-- Data for Name: migration; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.migration VALUES (1, 'core', '2026-11-30 17:36:45.982101+00', 1);


--
-- Data for Name: operation; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.operation OVERRIDING SYSTEM VALUE VALUES (1, 'pause', '{"topic": "up.paused"}', NULL, NULL, 'done', 'test', 'recorded', '{"changed": 1}', '2026-11-30 17:36:46.265735+00', '2026-11-30 17:36:46.265735+00');


--
-- Data for Name: relay; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.relay VALUES ('01a22d87-d426-7dad-82ed-2c436851281f', '2026-11-30 17:37:46.126699+00', '00:01:00', 1, false, '{}', false, 'test', 0, 'test', 'poll', '{"lane": {"free": null, "take": "^(?:up\\.flight)$", "topics": [{"in": true, "pattern": "up.flight"}], "unordered": []}}', '{}', '{}', '', '2026-11-30 17:36:46.129151+00', '2026-11-30 17:36:46.126699+00');


--
-- Data for Name: setting; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.setting VALUES ('home', '7713973082847956653/16384/16397');


--
-- Data for Name: waiting; Type: TABLE DATA; Schema: outbox; Owner: -
--

INSERT INTO outbox.waiting VALUES (9, '01a22d87-d41f-735f-93ea-cfdd9644505d', 'up.later', 'up.later', '\x6c617465722031', '{"Label": "later 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.111699+00', 0, 0, 0, false, NULL, '2026-11-30 18:36:46.111699+00', NULL, NULL, NULL, NULL);
INSERT INTO outbox.waiting VALUES (7, '01a22d87-d41c-7989-a859-944094694dc7', 'up.retry', 'up.retry', '\x72657472792031', '{"Label": "retry 1"}', NULL, NULL, NULL, NULL, '2026-11-30 17:36:46.108783+00', 0, 1, 0, true, NULL, '2026-11-30 18:36:46.18975+00', '2026-11-30 17:36:46.18975+00', '2026-11-30 17:36:46.18975+00', 'error', 'as recorded');


--
-- Name: claim_id_seq; Type: SEQUENCE SET; Schema: outbox; Owner: -
--

SELECT pg_catalog.setval('outbox.claim_id_seq', 5, true);


--
-- Name: operation_id_seq; Type: SEQUENCE SET; Schema: outbox; Owner: -
--

SELECT pg_catalog.setval('outbox.operation_id_seq', 1, true);


--
-- Name: seq; Type: SEQUENCE SET; Schema: outbox; Owner: -
--

SELECT pg_catalog.setval('outbox.seq', 16, true);


--
-- Name: archive archive_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.archive
    ADD CONSTRAINT archive_pkey PRIMARY KEY (seq, generation, ended_at);


--
-- Name: archive_default archive_default_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.archive_default
    ADD CONSTRAINT archive_default_pkey PRIMARY KEY (seq, generation, ended_at);


--
-- Name: claim claim_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (id);


--
-- Name: control control_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.control
    ADD CONSTRAINT control_pkey PRIMARY KEY (scope, name);


--
-- Name: dead dead_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (seq);


--
-- Name: dedup dedup_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.dedup
    ADD CONSTRAINT dedup_pkey PRIMARY KEY (topic, dedup_key);


--
-- Name: message message_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (seq);


--
-- Name: migration migration_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);


--
-- Name: operation operation_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);


--
-- Name: relay relay_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.relay
    ADD CONSTRAINT relay_pkey PRIMARY KEY (id);


--
-- Name: setting setting_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);


--
-- Name: waiting waiting_pkey; Type: CONSTRAINT; Schema: outbox; Owner: -
--

ALTER TABLE ONLY outbox.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (seq);


--
-- Name: archive_ended; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX archive_ended ON ONLY outbox.archive USING btree (ended_at);


--
-- Name: archive_default_ended_at_idx; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX archive_default_ended_at_idx ON outbox.archive_default USING btree (ended_at);


--
-- Name: archive_id; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX archive_id ON ONLY outbox.archive USING btree (id);


--
-- Name: archive_default_id_idx; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX archive_default_id_idx ON outbox.archive_default USING btree (id);


--
-- Name: claim_owner; Type: INDEX; Schema: outbox; Owner: -
--

CREATE UNIQUE INDEX claim_owner ON outbox.claim USING btree (id, relay);


--
-- Name: claim_token; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX claim_token ON outbox.claim USING btree (token);


--
-- Name: dead_free; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX dead_free ON outbox.dead USING btree (key) WHERE ((key IS NOT NULL) AND (NOT holds));


--
-- Name: dead_id; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX dead_id ON outbox.dead USING btree (id);


--
-- Name: dead_key; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX dead_key ON outbox.dead USING btree (key, seq) WHERE holds;


--
-- Name: dead_topic; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX dead_topic ON outbox.dead USING btree (topic, died_at);


--
-- Name: dedup_expires; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX dedup_expires ON outbox.dedup USING btree (expires_at);


--
-- Name: message_key; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX message_key ON outbox.message USING btree (key, seq) INCLUDE (topic) WHERE (key IS NOT NULL);


--
-- Name: operation_open; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX operation_open ON outbox.operation USING btree (id) WHERE (state <> 'done'::text);


--
-- Name: operation_waiting; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX operation_waiting ON outbox.operation USING btree (id) WHERE (state = 'waiting'::text);


--
-- Name: waiting_available; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX waiting_available ON outbox.waiting USING btree (available_at, seq);


--
-- Name: waiting_bound; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX waiting_bound ON outbox.waiting USING btree (destination, topic) WHERE (destination IS NOT NULL);


--
-- Name: waiting_id; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX waiting_id ON outbox.waiting USING btree (id);


--
-- Name: waiting_key; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX waiting_key ON outbox.waiting USING btree (key, seq) WHERE ((key IS NOT NULL) AND holds);


--
-- Name: waiting_suspect; Type: INDEX; Schema: outbox; Owner: -
--

CREATE INDEX waiting_suspect ON outbox.waiting USING btree (available_at, seq) WHERE (lapses > 0);


--
-- Name: archive_default_ended_at_idx; Type: INDEX ATTACH; Schema: outbox; Owner: -
--

ALTER INDEX outbox.archive_ended ATTACH PARTITION outbox.archive_default_ended_at_idx;


--
-- Name: archive_default_id_idx; Type: INDEX ATTACH; Schema: outbox; Owner: -
--

ALTER INDEX outbox.archive_id ATTACH PARTITION outbox.archive_default_id_idx;


--
-- Name: archive_default_pkey; Type: INDEX ATTACH; Schema: outbox; Owner: -
--

ALTER INDEX outbox.archive_pkey ATTACH PARTITION outbox.archive_default_pkey;


--
-- Name: FUNCTION add_partition(p_now timestamp with time zone, p_granularity text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.add_partition(p_now timestamp with time zone, p_granularity text) FROM PUBLIC;


--
-- Name: FUNCTION change(p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate integer, p_batch integer, p_operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.change(p_verb text, p_filter jsonb, p_actor text, p_reason text, p_dry_run boolean, p_rate integer, p_batch integer, p_operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION change_counts(p_counts jsonb, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.change_counts(p_counts jsonb, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint) FROM PUBLIC;


--
-- Name: FUNCTION change_filter(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, states text[], destination text, by_route boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.change_filter(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, states text[], destination text, by_route boolean) FROM PUBLIC;


--
-- Name: FUNCTION change_page(p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows integer, p_limit integer, OUT seqs bigint[], OUT reached bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.change_page(p_verb text, p_table text, p_filter jsonb, p_after bigint, p_until bigint, p_rows integer, p_limit integer, OUT seqs bigint[], OUT reached bigint) FROM PUBLIC;


--
-- Name: FUNCTION change_tables(p_verb text, p_filter jsonb); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.change_tables(p_verb text, p_filter jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_pause(topic text, destination text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.check_pause(topic text, destination text) FROM PUBLIC;


--
-- Name: FUNCTION check_times(delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.check_times(delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION discard(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], destination text, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.discard(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], destination text, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION discard_held(operation bigint, wait interval, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.discard_held(operation bigint, wait interval, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION discard_rows(p_seqs bigint[], p_actor text, p_reason text, OUT changed bigint, OUT held bigint[]); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.discard_rows(p_seqs bigint[], p_actor text, p_reason text, OUT changed bigint, OUT held bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION drop_partition(p_before timestamp with time zone, OUT name text, OUT messages bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.drop_partition(p_before timestamp with time zone, OUT name text, OUT messages bigint) FROM PUBLIC;


--
-- Name: FUNCTION end_discarded(p_seqs bigint[], p_actor text, p_reason text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.end_discarded(p_seqs bigint[], p_actor text, p_reason text) FROM PUBLIC;


--
-- Name: FUNCTION expire_archive(p_before timestamp with time zone, p_limit integer); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.expire_archive(p_before timestamp with time zone, p_limit integer) FROM PUBLIC;


--
-- Name: FUNCTION lock_keys(keys text[]); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.lock_keys(keys text[]) FROM PUBLIC;


--
-- Name: FUNCTION look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, OUT held bigint, OUT bare bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.look_at_rows(p_verb text, p_table text, p_seqs bigint[], p_filter jsonb, OUT held bigint, OUT bare bigint) FROM PUBLIC;


--
-- Name: FUNCTION move_from_default(p_name text, p_lower timestamp with time zone, p_upper timestamp with time zone); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.move_from_default(p_name text, p_lower timestamp with time zone, p_upper timestamp with time zone) FROM PUBLIC;


--
-- Name: FUNCTION new_id(); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.new_id() FROM PUBLIC;


--
-- Name: FUNCTION notify_relays(); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.notify_relays() FROM PUBLIC;


--
-- Name: FUNCTION operations(only_id bigint, max_rows integer); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.operations(only_id bigint, max_rows integer) FROM PUBLIC;


--
-- Name: FUNCTION pause(topic text, destination text, actor text, reason text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.pause(topic text, destination text, actor text, reason text) FROM PUBLIC;


--
-- Name: FUNCTION publish(topic text, payload bytea, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.publish(topic text, payload bytea, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid) FROM PUBLIC;


--
-- Name: FUNCTION publish_json(topic text, payload json, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.publish_json(topic text, payload json, key text, headers jsonb, content_type text, delay interval, deliver_at timestamp with time zone, ttl interval, expires_at timestamp with time zone, broker_ttl interval, dedup_key text, max_attempts integer, id uuid) FROM PUBLIC;


--
-- Name: FUNCTION publish_row(id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts integer, broker_ttl interval, ttl interval, expires_at timestamp with time zone, delay interval, deliver_at timestamp with time zone, dedup_key text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.publish_row(id uuid, own_id boolean, topic text, key text, payload bytea, headers jsonb, max_attempts integer, broker_ttl interval, ttl interval, expires_at timestamp with time zone, delay interval, deliver_at timestamp with time zone, dedup_key text) FROM PUBLIC;


--
-- Name: FUNCTION purge(states text[], ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, holding boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.purge(states text[], ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, holding boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION purge_partition(p_filter jsonb, p_rate integer); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.purge_partition(p_filter jsonb, p_rate integer) FROM PUBLIC;


--
-- Name: FUNCTION purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) FROM PUBLIC;


--
-- Name: FUNCTION redrive(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.redrive(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION redrive_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.redrive_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) FROM PUBLIC;


--
-- Name: FUNCTION replay(destination text, ids uuid[], topic text, key text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.replay(destination text, ids uuid[], topic text, key text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, states text[], OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT bare bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, OUT changed bigint, OUT held bigint, OUT bare bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.replay_rows(p_seqs bigint[], p_filter jsonb, p_dry_run boolean, OUT changed bigint, OUT held bigint, OUT bare bigint) FROM PUBLIC;


--
-- Name: FUNCTION reroute_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.reroute_rows(p_seqs bigint[], p_filter jsonb, OUT changed bigint, OUT held bigint) FROM PUBLIC;


--
-- Name: FUNCTION resume(topic text, destination text, actor text, reason text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.resume(topic text, destination text, actor text, reason text) FROM PUBLIC;


--
-- Name: FUNCTION retry(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.retry(ids uuid[], topic text, key text, error_class text, error_text text, older_than interval, newer_than interval, everything boolean, max_messages bigint, actor text, reason text, dry_run boolean, rate integer, batch integer, operation bigint, destination text, by_route boolean, OUT operation_id bigint, OUT matched bigint, OUT changed bigint, OUT held bigint, OUT more boolean) FROM PUBLIC;


--
-- Name: FUNCTION retry_rows(p_seqs bigint[]); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.retry_rows(p_seqs bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION set_archive(mode text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.set_archive(mode text) FROM PUBLIC;


--
-- Name: FUNCTION set_notify(mode text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.set_notify(mode text) FROM PUBLIC;


--
-- Name: FUNCTION settle_tx(p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint, p_keep boolean); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.settle_tx(p_relay uuid, p_claim bigint, p_token uuid, p_seq bigint, p_keep boolean) FROM PUBLIC;


--
-- Name: FUNCTION take_dedup_key(topic text, dedup_key text, id uuid, seq bigint); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.take_dedup_key(topic text, dedup_key text, id uuid, seq bigint) FROM PUBLIC;


--
-- Name: FUNCTION unheld_rows(p_seqs bigint[], OUT lost bigint[], OUT held bigint[], OUT free bigint[]); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.unheld_rows(p_seqs bigint[], OUT lost bigint[], OUT held bigint[], OUT free bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION untaken_rows(p_seqs bigint[]); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.untaken_rows(p_seqs bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION wake_relays(); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.wake_relays() FROM PUBLIC;


--
-- Name: FUNCTION with_content_type(headers jsonb, content_type text); Type: ACL; Schema: outbox; Owner: -
--

REVOKE ALL ON FUNCTION outbox.with_content_type(headers jsonb, content_type text) FROM PUBLIC;


--
-- PostgreSQL database dump complete
--



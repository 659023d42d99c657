-- Claim: the one place of the key rule.
--
-- Runs alone (claim lock) and finds candidates in one statement, hence one snapshot, taken after the lock:
-- settling does not take the lock, and between two snapshots a message could change its table and be
-- overtaken by a younger one of its key.
--
-- What to take is chosen by outbox.choose, or where nothing is out of the ordinary by outbox.choose_plain.
--
-- Key rule: a keyed candidate is taken only if no claim that was not locked here holds its key in this
-- destination, and if no undelivered older message of its key and destination is outside the batch: in
-- message, in waiting or dead with holds. The topics of a destination are those of its lanes on all live relays.
-- A head that is found this way and that nobody holds takes the place
-- of its key's candidates.
create function outbox.claim(
    p_relay       uuid,
    p_destination text,
    p_token       uuid,
    p_limit       int,
    p_bytes       bigint,
    p_oversized   boolean,   -- the first message is taken even if it exceeds p_bytes
    p_closed      jsonb,     -- topics that a breaker has closed
    p_floor       bigint,    -- the window starts here …
    p_share       boolean,   -- … or further on, where other relays' windows ended
    p_window      int,       -- rows
    p_window_only boolean,   -- no other candidates
    p_due_at      timestamptz, -- due rows after this one, by time and seq
    p_due_seq     bigint,
    p_due_rows    int,
    p_keys        text[],    -- continue these keys below the floor
    p_seqs        bigint[],  -- offered candidates without a key
    p_foreign     bigint[],  -- lost claims known to hold nothing for this lane
    p_lost        int,       -- lost claims; each is held for as long as another one has a part of its keys
    p_lost_after  bigint,    -- begin with those after this one
    p_low         bigint,    -- no live claim has a lower id …
    p_backend     int,       -- … as this backend has seen: a crash of the database ends it, and ids are drawn again
    p_base        bigint,    -- of that backend, too: below it nothing is left of the lane's topics …
    p_high        bigint,    -- … and below this only messages of …
    p_known       text[],    -- … these keys
    p_queue       boolean,   -- wait for the claim lock
    p_stream      bigint[] default null, -- in place of a window: seqs that were streamed from the WAL, all below p_floor
    out state        text,     -- busy: somebody else has the lock; unknown: no such relay (any more); done
    out claimed      int,
    out floor        bigint,   -- where the next window starts
    out scanned      int,      -- rows of the window
    out yielded      int,      -- of which candidates that the key rule let pass
    out due_at       timestamptz, -- the last due row looked at; null: there were no more
    out due_seq      bigint,
    out cut          boolean,  -- candidates were left for want of room
    out misfit       boolean,  -- and none was taken, because it is larger than p_bytes
    out skipped_keys text[],   -- keys with rows now below the floor that were not taken
    out blocked_keys text[],   -- of p_keys: an older one is waiting or dead
    out ended_keys   text[],   -- of p_keys: nothing left below the floor
    out foreign_ids  bigint[], -- lost claims with nothing for this lane
    out lost_last    bigint,   -- the last lost claim looked at
    out low          bigint,
    out backend      int,
    out stopped      text,     -- which topics were not claimed: closed or paused
    out mixed        boolean,  -- other relays have other topics in this lane
    out next_due     bigint,   -- microseconds until the next waiting row is due
    out fresh        bigint,   -- the claim that has none whose relay died
    out streamed     bigint[], -- of p_stream: claimed
    out absent       bigint[], -- of p_stream: not in message, for transactions that …
    out snapshot     text,     -- … this has seen
    out now          timestamptz
)
language plpgsql volatile
as $$
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
    v_choice   outbox.choice;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'outbox.claim needs a READ COMMITTED transaction: in any other the snapshot is older than the lock'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform outbox.plan_settings(), set_config('synchronous_commit', 'off', true);
    if p_queue then
        perform outbox.claim_lock();
    elsif not outbox.try_claim_lock() then
        state := 'busy';
        return;
    end if;

    v_now := clock_timestamp();
    delete from outbox.relay
    where id = any (array(select r.id from outbox.relay r where r.lease_until < v_now for update skip locked));
    select r.beat, r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_beat, v_take, v_free
    from outbox.relay r where r.id = p_relay;
    if v_beat is null then
        state := 'unknown';
        return;
    end if;
    state := 'done';
    select case when bool_or(d.take = '') then '' else string_agg(d.take, '|') end
    into v_dest
    from (select distinct r.destinations -> p_destination ->> 'take' as take from outbox.relay r) d;
    mixed := v_dest is distinct from v_take;

    if exists (select from outbox.control) or p_closed is not null then
        v_stop := outbox.topics_regexp((
            select coalesce(jsonb_agg(jsonb_build_object('in', true, 'pattern',
                       case c.scope when 'topic' then c.name else '>' end) order by c.scope, c.name), '[]')
            from outbox.control c
            where c.scope = 'topic' or c.name = p_destination) || coalesce(p_closed, '[]'));
    end if;
    stopped := v_stop;

    backend := pg_backend_pid();
    low := case when p_backend = backend then p_low else 0 end;
    select coalesce(min(c.id), low), greatest(p_floor, coalesce(max(c.floor) filter (where p_share
               and c.destination = p_destination
               and c.relay in (select r.id from outbox.relay r
                               where r.destinations -> p_destination ->> 'take' = v_take)), 0)),
           coalesce(bool_or(c.relay = p_relay and c.lapses >= 2), false),
           coalesce(bool_or(c.relay is null or c.relay not in (select r.id from outbox.relay r)), false)
    into low, v_floor, v_suspect, v_lost
    from outbox.claim c
    where c.id >= low;

    if v_stop is null and not mixed and not v_lost and not p_window_only and p_seqs = '{}'
        and not exists (select from outbox.waiting w where w.available_at <= v_now)
        and not exists (select from outbox.waiting w where w.key = any (p_keys) and w.holds)
        and not exists (select from outbox.dead d where d.key = any (p_keys) and d.holds)
    then
        v_choice := outbox.choose_plain(v_take, v_free, low, v_floor, p_destination, p_limit, p_bytes, p_window, p_keys,
            case when p_backend = backend then p_base else 0 end, case when p_backend = backend then p_high else 0 end, p_known, p_stream);
    end if;
    if v_choice.floor is null then
        v_choice := outbox.choose(v_now, v_take, v_dest, v_free, v_stop, mixed, v_suspect, low, v_floor, p_destination,
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
        perform outbox.take_over(v_choice.lost,
            coalesce(v_choice.seqs, '{}') || coalesce(v_choice.relisted, '{}') || coalesce(v_choice.alone, '{}'));
    end if;
    -- Others share the floor, but not of windows that have left topics out, nor of a lane that follows the stream.
    with claims as (
        insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor, lapses, claimed_at)
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
    from (select w.available_at, w.topic from outbox.waiting w
          where w.available_at > v_now order by w.available_at limit 100) w
    having count(*) > 0;
end
$$;
comment on function outbox.claim is 'Takes messages for one lane of a relay; see docs/protocol.md.';

-- What is left of a lane's keyed messages between two seqs, once every transaction that wrote to message at the mark has
-- ended; see pgstore/base.go. Outside the claim lock.
create function outbox.below_mark(
    p_relay       uuid,
    p_destination text,
    p_from        bigint,
    p_mark        bigint,   -- up to here
    p_writers     text[],   -- that had not ended at the mark
    p_floor       bigint,   -- the next mark is not above it
    p_most        int,      -- keys
    out backend int,
    out mark    bigint,     -- the next one …
    out writers text[],     -- … and who has not ended there
    out ended   boolean,    -- those of the mark have …
    out keys    text[],     -- … and this is left below it; more than p_most, or null: too much to know
    out lowest  bigint      -- the first that is left; the mark: nothing is
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_take text;
    v_free text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'outbox.below_mark needs a READ COMMITTED transaction: in any other the snapshot is older than what it reads of locks'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform outbox.plan_settings();
    backend := pg_backend_pid();
    mark := least(p_floor, (select s.last_value + 1 from outbox.seq s));
    -- Whoever draws a seq has the lock since before, and gives it up after its rows have become visible; a prepared
    -- transaction has it, too.
    select coalesce(array_agg(distinct l.virtualtransaction), '{}') into writers
    from pg_locks l
    where l.locktype = 'relation' and l.relation = 'outbox.message'::regclass and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database());
    ended := not writers && p_writers;
    if not ended then
        return;
    end if;
    select r.destinations -> p_destination ->> 'take', r.destinations -> p_destination ->> 'free'
    into v_take, v_free
    from outbox.relay r where r.id = p_relay;
    with rest as materialized (
        select m.seq, m.key
        from outbox.message m
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

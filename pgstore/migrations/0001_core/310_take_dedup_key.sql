-- Takes a dedup key for the message seq; false: it is taken. Three statements, because under READ COMMITTED each
-- has a snapshot of its own:
--   1. the insert waits for a concurrent publisher of the key to end;
--   2. the select locks the row in its newest version, waiting for a concurrent takeover to end;
--   3. only a snapshot younger than that lock is sure to see the holder's message. In one statement, INSERT ... ON
--      CONFLICT DO UPDATE ... WHERE NOT EXISTS (message), the second of two concurrent publishers would not.
create function outbox.take_dedup_key(topic text, dedup_key text, id uuid, seq bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    held     outbox.dedup;
    is_taken boolean;
    free_at  timestamptz := clock_timestamp() + coalesce(
        (select s.value::interval from outbox.setting s where s.name = 'dedup_window'), interval '0');
begin
    loop
        insert into outbox.dedup (topic, dedup_key, id, seq, expires_at)
        values (take_dedup_key.topic, take_dedup_key.dedup_key, take_dedup_key.id, take_dedup_key.seq, free_at)
        on conflict on constraint dedup_pkey do nothing;
        if found then
            return true;
        end if;

        select * into held from outbox.dedup d
        where d.topic = take_dedup_key.topic and d.dedup_key = take_dedup_key.dedup_key
        for update;
        continue when not found; -- the janitor was faster

        is_taken := held.expires_at > clock_timestamp()
            or exists (select from outbox.message m where m.seq = held.seq)
            or exists (select from outbox.waiting w where w.seq = held.seq)
            or exists (select from outbox.dead x where x.seq = held.seq);
        if is_taken then
            return false;
        end if;

        update outbox.dedup d
        set id = take_dedup_key.id, seq = take_dedup_key.seq, expires_at = free_at
        where d.topic = take_dedup_key.topic and d.dedup_key = take_dedup_key.dedup_key;
        return true;
    end loop;
end
$$;
comment on function outbox.take_dedup_key(text, text, uuid, bigint) is 'Internal: registers a dedup key, or a caller''s own id as topic '''' and the id as key; false: it is taken.';
revoke execute on function outbox.take_dedup_key(text, text, uuid, bigint) from public;

-- Drops one partition that ended at a time or before, the oldest first, and tells how many messages were in it: counted
-- up to five million, estimated above. name is null: there is none. Dropping locks the whole archive for a moment, for
-- which it does not wait longer than settling bears.
create function outbox.drop_partition(p_before timestamptz, out name text, out messages bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
#variable_conflict use_variable
declare
    v_counted constant int := 5000000;
begin
    messages := 0;
    if not pg_try_advisory_xact_lock(28514, 'outbox.archive'::regclass::oid::int) then
        return;
    end if;
    select p.name into name from outbox.partitions() p where p.upper <= p_before order by p.upper limit 1;
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
comment on function outbox.drop_partition(timestamptz) is 'Drops the oldest partition of the archive that ended at a time or before.';
revoke execute on function outbox.drop_partition(timestamptz) from public;

-- Deletes messages that ended before a time from partitions that hold younger ones too, at most p_limit.
create function outbox.expire_archive(p_before timestamptz, p_limit int) returns int
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_name    text;
    v_deleted int := 0;
    v_n       int;
begin
    for v_name in
        select p.name from outbox.partitions() p where p.lower < p_before and p.upper > p_before
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
$$;
comment on function outbox.expire_archive(timestamptz, int) is 'Deletes messages from the archive that ended before a time, where their partition cannot be dropped.';
revoke execute on function outbox.expire_archive(timestamptz, int) from public;

-- What relays keep of ended messages, for those who end messages without a relay. Written when it changes.
create function outbox.set_archive(mode text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    insert into outbox.setting as s (name, value) values ('archive', mode)
    on conflict (name) do update set value = excluded.value where s.value <> excluded.value;
end
$$;
comment on function outbox.set_archive(text) is 'What is kept of messages that operators discard: off, bare (without payload), full.';
revoke execute on function outbox.set_archive(text) from public;

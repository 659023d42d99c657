-- Drops a partition of the archive in which nothing is left that the filter of a purge does not mean, and returns how many
-- messages were in it. Null: there is none, the filter means only some messages of a partition, or somebody reads.
create function outbox.purge_partition(p_filter jsonb, p_rate int) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    if p_rate is not null or p_filter ?| '{ids,topic,key,class,text,after,limit}'
       or not p_filter -> 'states' @> '["delivered", "dropped", "expired", "discarded"]' then
        return null;
    end if;
    return (select case when d.name is not null then d.messages end
            from outbox.drop_partition(coalesce((p_filter ->> 'before')::timestamptz, clock_timestamp())) d);
exception when lock_not_available then
    return null;
end
$$;
comment on function outbox.purge_partition is 'Internal: purges a whole partition of the archive.';
revoke execute on function outbox.purge_partition from public;

-- Removes messages that have ended, or dead ones, under the claim lock; of the dead, those that hold a key only when asked to.
create function outbox.purge_rows(p_table text, p_seqs bigint[], p_filter jsonb, out changed bigint, out held bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    if p_table = 'dead' then
        delete from outbox.dead d where d.seq = any (p_seqs) and (not d.holds or (p_filter -> 'holding')::boolean);
        get diagnostics changed = row_count;
        held := (select count(*) from outbox.dead d where d.seq = any (p_seqs));
        return;
    end if;
    -- One seq may have several generations.
    delete from outbox.archive a
    where a.seq = any (p_seqs)
      and p_filter -> 'states' ? a.outcome
      and a.ended_at <= coalesce((p_filter ->> 'before')::timestamptz, 'infinity')
      and a.ended_at > coalesce((p_filter ->> 'after')::timestamptz, '-infinity')
      and (not p_filter ? 'text' or position(p_filter ->> 'text' in a.detail) > 0);
    get diagnostics changed = row_count;
    held := 0;
end
$$;
comment on function outbox.purge_rows is 'Internal: purges these messages.';
revoke execute on function outbox.purge_rows from public;

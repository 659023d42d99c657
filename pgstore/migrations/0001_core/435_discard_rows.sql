-- Removes messages that no live relay holds, under the claim lock, and fences whoever listed what is removed.
create function outbox.discard_rows(p_seqs bigint[], p_actor text, p_reason text, out changed bigint, out held bigint[])
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows record;
begin
    select * into v_rows from outbox.unheld_rows(p_seqs);
    held := v_rows.held;
    changed := outbox.end_discarded(v_rows.free, p_actor, p_reason);
    perform outbox.take_over(v_rows.lost, v_rows.free);
end
$$;
comment on function outbox.discard_rows(bigint[], text, text) is 'Internal: removes these messages, under the claim lock.';
revoke execute on function outbox.discard_rows(bigint[], text, text) from public;

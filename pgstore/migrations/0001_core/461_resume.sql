create function outbox.resume(topic text default null, destination text default null, actor text default null, reason text default null)
returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    operation_id bigint;
    given text := case when topic is not null then 'topic' else 'destination' end;
begin
    perform outbox.check_pause(topic, destination);
    delete from outbox.control c where c.scope = given and c.name = coalesce(topic, destination);
    if not found then
        return null;
    end if;
    insert into outbox.operation (verb, filter, state, actor, reason, counts, finished_at)
    values ('resume', jsonb_build_object(given, coalesce(topic, destination)), 'done', coalesce(nullif(actor, ''), session_user),
        reason, '{"changed": 1}', clock_timestamp())
    returning id into operation_id;
    perform outbox.wake_relays();
    return operation_id;
end
$$;
comment on function outbox.resume is 'Ends the pause of exactly this topic pattern or destination. Returns the operation''s id; null: it was not paused.';
revoke execute on function outbox.resume from public;

-- Pauses are written under the claim lock: when the call has committed, no relay claims what is paused any more.
-- What is in delivery goes on.
create function outbox.pause(topic text default null, destination text default null, actor text default null, reason text default null)
returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    operation_id bigint;
    scope text := case when topic is not null then 'topic' else 'destination' end;
begin
    perform outbox.check_pause(topic, destination);
    actor := coalesce(nullif(actor, ''), session_user);
    perform outbox.claim_lock();
    insert into outbox.control as c (scope, name, reason, actor) values (scope, coalesce(topic, destination), reason, actor)
    on conflict on constraint control_pkey do update
    set reason = excluded.reason, actor = excluded.actor, at = excluded.at;
    insert into outbox.operation (verb, filter, state, actor, reason, counts, finished_at)
    values ('pause', jsonb_build_object(scope, coalesce(topic, destination)), 'done', actor, reason, '{"changed": 1}', clock_timestamp())
    returning id into operation_id;
    return operation_id;
end
$$;
comment on function outbox.pause is 'No relay claims from this topic pattern or destination until it is resumed; its messages hold their keys. Returns the operation''s id.';
revoke execute on function outbox.pause from public;

create function outbox.check_pause(topic text, destination text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
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
$$;
comment on function outbox.check_pause(text, text) is 'Internal: refuses what cannot be paused.';
revoke execute on function outbox.check_pause(text, text) from public;

create function outbox.notify_relays() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_notify('outbox', '');
    return null;
end
$$;
comment on function outbox.notify_relays() is 'Internal: the trigger of set_notify(''trigger'').';
revoke execute on function outbox.notify_relays() from public;

-- The triggers exist only when they are wanted: each costs every statement that inserts.
create function outbox.set_notify(mode text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if mode is null or mode not in ('publish', 'trigger', 'off') then
        raise invalid_parameter_value using message = format('notify mode %L: must be publish, trigger or off', mode);
    end if;
    insert into outbox.setting (name, value) values ('notify', mode)
    on conflict (name) do update set value = excluded.value;
    drop trigger if exists notify_relays on outbox.message;
    drop trigger if exists notify_relays on outbox.waiting;
    if mode = 'trigger' then
        create trigger notify_relays after insert on outbox.message
            for each statement execute function outbox.notify_relays();
        create trigger notify_relays after insert on outbox.waiting
            for each statement execute function outbox.notify_relays();
    end if;
end
$$;
comment on function outbox.set_notify(text) is 'How publishing wakes relays: publish (the publish functions notify), trigger (every insert notifies), off.';
revoke execute on function outbox.set_notify(text) from public;

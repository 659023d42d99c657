-- The same refusals as in Go, where they come before any SQL.
create function outbox.check_times(delay interval, deliver_at timestamptz, ttl interval, expires_at timestamptz)
returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
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
comment on function outbox.check_times(interval, timestamptz, interval, timestamptz) is 'Internal: refuses times that contradict each other.';
revoke execute on function outbox.check_times(interval, timestamptz, interval, timestamptz) from public;

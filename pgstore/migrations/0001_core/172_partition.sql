-- The partitions of the archive but for the default one, in order of time, whoever made them. UTC and ISO, because the
-- catalog gives bounds as text.
create function outbox.partitions() returns table (name text, lower timestamptz, upper timestamptz)
language sql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO'
as $$
    select c.relname::text,
           coalesce(substring(b.bound from 'FROM \(''([^'']+)''\)')::timestamptz, '-infinity'),
           coalesce(substring(b.bound from 'TO \(''([^'']+)''\)')::timestamptz, 'infinity')
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as bound) b
    where i.inhparent = 'outbox.archive'::regclass and b.bound <> 'DEFAULT'
    order by 2
$$;
comment on function outbox.partitions() is 'The archive''s partitions, the end exclusive.';

-- Where the partition begins that a time lies in, or one some steps further on, by the calendar of UTC: days are counted
-- from a Monday, months from January.
create function outbox.partition_bound(p_at timestamptz, p_granularity text, p_steps int) returns timestamptz
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_at     timestamp := p_at at time zone 'UTC';
    v_length int;
    v_first  constant date := '2001-01-01';
    v_months int;
begin
    if p_granularity is null or p_granularity !~ '^[1-9][0-9]{0,2}[dm]$' then
        raise invalid_parameter_value using message = format('granularity %L: must be a number of days or months, such as 1d, 7d or 1m', p_granularity);
    end if;
    v_length := left(p_granularity, -1)::int;
    if right(p_granularity, 1) = 'd' then
        return (v_first + (floor((v_at::date - v_first)::numeric / v_length)::int + p_steps) * v_length)::timestamp at time zone 'UTC';
    end if;
    v_months := (extract(year from v_at)::int - 2001) * 12 + extract(month from v_at)::int - 1;
    return (v_first + make_interval(months => (floor(v_months::numeric / v_length)::int + p_steps) * v_length)) at time zone 'UTC';
end
$$;
comment on function outbox.partition_bound(timestamptz, text, int) is 'Internal: the beginning of a partition.';

-- Makes one partition, if one is missing from now to two steps ahead, and returns its name; null: none is missing, or
-- somebody else is making it. The next one begins where the last one ends, so the granularity may change at any time.
-- What had its place in the default partition moves; a table that was detached by hand keeps its name, and the
-- default partition keeps its rows. Readers of the archive may keep this from its locks: it waits for none longer than
-- settling bears, and is called again.
create function outbox.add_partition(p_now timestamptz, p_granularity text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' set lock_timeout = '100ms'
as $$
declare
    v_until constant timestamptz := outbox.partition_bound(p_now, p_granularity, 3);
    v_lower timestamptz;
    v_upper timestamptz;
    v_name  text;
begin
    if not pg_try_advisory_xact_lock(28514, 'outbox.archive'::regclass::oid::int) then
        return null;
    end if;
    -- Where the partition of now begins, or may begin.
    select coalesce(max(p.lower) filter (where p.lower <= p_now and p.upper > p_now),
                    greatest(outbox.partition_bound(p_now, p_granularity, 0), max(p.upper) filter (where p.upper <= p_now)))
    into v_lower
    from outbox.partitions() p;
    loop
        select p.upper into v_upper from outbox.partitions() p where p.lower <= v_lower and p.upper > v_lower;
        if not found then
            select least(outbox.partition_bound(v_lower, p_granularity, 1), min(p.lower)) into v_upper
            from outbox.partitions() p where p.lower > v_lower;
            v_name := format('archive_%s_%s', to_char(v_lower, 'YYYYMMDD'), to_char(v_upper, 'YYYYMMDD'));
            exit when v_lower >= v_until or to_regclass(format('%I.%I', 'outbox', v_name)) is null;
        end if;
        v_lower := v_upper;
        if v_lower >= v_until then
            return null;
        end if;
    end loop;
    if v_lower >= v_until then
        return null;
    end if;

    execute format('create table %I.%I (like %I.archive including all)', 'outbox', v_name, 'outbox');
    perform outbox.move_from_default(v_name, v_lower, v_upper);
    -- Nothing is added from here on; the first move did most of it without a lock.
    lock table outbox.archive_default in access exclusive mode;
    perform outbox.move_from_default(v_name, v_lower, v_upper);
    execute format('alter table %I.archive attach partition %I.%I for values from (%L) to (%L)', 'outbox', 'outbox', v_name, v_lower, v_upper);
    return v_name;
end
$$;
comment on function outbox.add_partition(timestamptz, text) is 'Makes one partition of the archive that is missing ahead of a time, and returns its name.';
revoke execute on function outbox.add_partition(timestamptz, text) from public;

create function outbox.move_from_default(p_name text, p_lower timestamptz, p_upper timestamptz) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('with moved as (delete from %I.archive_default where ended_at >= $1 and ended_at < $2 returning *)
        insert into %I.%I select * from moved', 'outbox', 'outbox', p_name) using p_lower, p_upper;
end
$$;
comment on function outbox.move_from_default(text, timestamptz, timestamptz) is 'Internal: moves rows to a table that will be their partition.';
revoke execute on function outbox.move_from_default(text, timestamptz, timestamptz) from public;

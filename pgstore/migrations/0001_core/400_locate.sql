-- Where messages are, by id. The message table has no index on it, since publishing would pay for that. An id of
-- version 7 has its time in it, and seqs are drawn in the order of time as well: so a few probes find the seq at
-- which its second begins, or its minute. What is not found near there (the clock of the publisher, an id of another version) is
-- looked for in the whole table.
create function outbox.locate(p_ids uuid[]) returns table (id uuid, seq bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id     uuid;
    v_left   uuid[] := '{}';
    v_from   bigint;
    v_found  bigint;
    v_margin int;
begin
    foreach v_id in array p_ids loop
        select coalesce((select w.seq from outbox.waiting w where w.id = v_id limit 1),
                        (select d.seq from outbox.dead d where d.id = v_id limit 1))
        into v_found;
        if get_byte(uuid_send(v_id), 6) >> 4 = 7 then
            -- In a burst a minute has more messages than are looked at; clocks of publishers differ by less mostly.
            foreach v_margin in array '{1,60}'::int[] loop
                exit when v_found is not null;
                v_from := outbox.seq_at(to_timestamp(
                    ('x' || translate(left(v_id::text, 13), '-', ''))::bit(48)::bigint / 1000.0 - v_margin));
                select p.seq into v_found
                from (select m.seq, m.id from outbox.message m where m.seq >= v_from order by m.seq limit 100000) p
                where p.id = v_id
                limit 1;
            end loop;
        end if;
        if v_found is null then
            v_left := v_left || v_id;
        else
            id := v_id;
            seq := v_found;
            return next;
        end if;
    end loop;
    if v_left <> '{}' then
        return query select m.id, m.seq from outbox.message m where m.id = any (v_left);
    end if;
end
$$;
comment on function outbox.locate(uuid[]) is 'Internal: the seqs of undelivered and dead messages, by id.';

-- The lowest seq of the message table that was published at or after a time, as far as seqs and times go together.
create function outbox.seq_at(p_at timestamptz) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_low  bigint := (select m.seq from outbox.message m order by m.seq limit 1);
    v_high bigint := (select m.seq from outbox.message m order by m.seq desc limit 1);
    v_mid  bigint;
    v_row  record;
begin
    while v_low < v_high loop
        v_mid := (v_low + v_high) / 2;
        select m.seq, m.published_at into v_row from outbox.message m where m.seq >= v_mid order by m.seq limit 1;
        if v_row.published_at < p_at then
            v_low := v_row.seq + 1;
        else
            v_high := v_mid;
        end if;
    end loop;
    return v_low;
end
$$;
comment on function outbox.seq_at(timestamptz) is 'Internal: where in the message table a time begins.';

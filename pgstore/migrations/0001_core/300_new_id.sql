-- A UUID of version 7: milliseconds, 12 bits of their fraction, 62 random bits. PostgreSQL has a function of its
-- own from 18 on.
create function outbox.new_id() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp
as $$
    select encode(
        substring(int8send(t.micros / 1000) from 3)
        || int2send((28672 + (t.micros % 1000) * 4096 / 1000)::int2)
        || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid
    from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint) t(micros)
$$;
comment on function outbox.new_id() is 'A UUID of version 7, so that ids sort by the time they were made.';
revoke execute on function outbox.new_id() from public;

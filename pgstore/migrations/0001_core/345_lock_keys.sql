-- The key locks make transactions that publish a key take turns from their publishing to their end, so that the order
-- of seq is the order of commits. Their class is 28516 (the claim's is 28514, the migrators' 28515), their object is
-- made of the oid of the message table and the bucket of the key.
--
-- 64 buckets, and not a lock for each key: a transaction holds at most 64 of them and so does the outbox, however
-- many keys and publishers there are, and the server's lock table cannot be exhausted. The price is that two keys
-- share a bucket now and then. Buckets are locked in order, so that two calls cannot wait for each other.
create function outbox.lock_keys(keys text[]) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    line constant bigint := 'outbox.message'::regclass::oid::bigint << 6;
    lock bigint;
begin
    for lock in
        select distinct (line | (hashtext(k.key collate "C") & 63)) & 4294967295 as object
        from unnest(keys) k(key)
        where k.key is not null
        order by object
    loop
        -- The same 32 bits as a signed integer.
        perform pg_advisory_xact_lock(28516, (case when lock < 2147483648 then lock else lock - 4294967296 end)::int);
    end loop;
    return true;
end
$$;
comment on function outbox.lock_keys(text[]) is 'Locks the keys to the end of the transaction, so that transactions that publish one of them take turns: their order is that of their commits. Before a plain INSERT call it yourself; publish does with the setting lock_keys = on. Returns true.';
revoke execute on function outbox.lock_keys(text[]) from public;

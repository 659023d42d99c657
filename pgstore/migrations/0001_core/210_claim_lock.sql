-- The claim lock: one per outbox, held to the end of the transaction. Its class is 'ob' (28514), its object
-- the oid of the message table.
create function outbox.try_claim_lock() returns boolean
language sql volatile
as $$ select pg_try_advisory_xact_lock(28514, 'outbox.message'::regclass::oid::int) $$;

create function outbox.claim_lock() returns void
language sql volatile
as $$ select pg_advisory_xact_lock(28514, 'outbox.message'::regclass::oid::int) $$;

-- Planner settings under which the plans of claim and settle do not depend on statistics, to the end of the
-- transaction. (SET LOCAL would log a warning in a pipeline; a SET clause of the function ends before the
-- commit that asynchronous commit is about.)
create function outbox.plan_settings() returns void
language plpgsql volatile
as $$
begin
    perform set_config('enable_seqscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true),
            set_config('enable_memoize', 'off', true),
            set_config('plan_cache_mode', 'force_generic_plan', true),
            set_config('jit', 'off', true),
            set_config('work_mem', '16MB', true);
end
$$;

-- What this transaction has published so far, in publish order. A row's xmin is the transaction, or the savepoint in
-- it, that inserted the row; visible and in progress at once it can only be ours. xmin has the lower 32 bits of a
-- number that pg_xact_status wants whole: of what we see, only younger numbers than our own can be ours.
select m.topic, coalesce(m.key, ''), m.payload, m.headers::text, coalesce(m.dedup_key, '')
from (select pg_current_xact_id()::text::bigint as id) own
cross join lateral (
    select r.*, (r.xmin - own.id % 4294967296 + 4294967296) % 4294967296 as younger
    from (
        select seq, topic, key, payload, headers, dedup_key, xmin::text::bigint as xmin from outbox.message
        union all
        select seq, topic, key, payload, headers, dedup_key, xmin::text::bigint from outbox.waiting
    ) r
) m
where case when m.younger < 2147483648 then pg_xact_status((own.id + m.younger)::text::xid8) = 'in progress' end
order by m.seq

-- Without a row of the consumer group nothing has been acknowledged.
select count(*)
from watermill_bench_default
where (transaction_id, "offset") > (
    coalesce((select last_processed_transaction_id from watermill_offsets_bench_default), '0'),
    coalesce((select offset_acked from watermill_offsets_bench_default), 0))

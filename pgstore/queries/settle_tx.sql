-- In a transaction of the caller's, with any driver: text arguments, and a session reads two columns.
select outbox.settle_tx($1::text::uuid, $2::text::bigint, $3::text::uuid, $4::text::bigint,
    nullif($5::text, '')::boolean), null::text

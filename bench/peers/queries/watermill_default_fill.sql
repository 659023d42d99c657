-- Envelopes as the forwarder's publisher makes them, from a hundred transactions.
insert into watermill_bench_default (uuid, payload, metadata, transaction_id)
select id::text,
       convert_to(json_build_object('destination_topic', topic, 'uuid', id, 'metadata', headers,
           'payload', translate(encode(payload, 'base64'), E'\n', ''))::text, 'UTF8'),
       '{}',
       (3 + 100 * seq / (select max(seq) from outbox.message))::text::xid8
from outbox.message
order by seq

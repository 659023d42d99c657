-- Envelopes as the forwarder's publisher makes them.
insert into watermill_bench_queue (uuid, payload, metadata)
select id::text,
       convert_to(json_build_object('destination_topic', topic, 'uuid', id, 'metadata', headers,
           'payload', translate(encode(payload, 'base64'), E'\n', ''))::text, 'UTF8'),
       '{}'
from outbox.message
order by seq

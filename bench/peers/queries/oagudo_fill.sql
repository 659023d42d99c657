insert into outbox (id, created_at, scheduled_at, metadata, payload, times_attempted)
select id, published_at, published_at, convert_to(headers::text, 'UTF8'), payload, 0
from outbox.message
order by seq

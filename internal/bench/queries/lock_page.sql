-- What a page of code writes: whoever locks a row sends it.
select seq, id, topic, coalesce(key, ''), payload, headers::text, published_at
from outbox.message
order by seq
limit $1
for update skip locked

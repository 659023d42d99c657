select seq, id, topic, coalesce(key, ''), payload, headers::text, published_at
from outbox.message
where seq > $1
order by seq
limit $2

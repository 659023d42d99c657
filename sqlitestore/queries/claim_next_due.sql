select w.topic, w.available_at, coalesce(w.destination, '')
from outbox_waiting w
where w.available_at > ?1
order by w.available_at
limit 100

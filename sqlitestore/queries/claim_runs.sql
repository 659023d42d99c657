-- The ready messages of some keys, key by key, the oldest first: in this order the indexes give them.
select m.seq, m.topic, m.key, length(m.payload), 0, 0
from json_each(?1) e
cross join outbox_message m on m.key = e.value
limit ?2

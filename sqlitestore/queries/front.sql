-- The keys of the oldest ready messages.
select m.key, m.topic
from (select x.key, x.topic, x.published_at from outbox_message x order by x.seq limit 10000) m
where m.key is not null
group by m.key, m.topic

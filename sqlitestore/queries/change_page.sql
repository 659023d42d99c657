-- Where the next ten thousand messages of a state end; null at the end.
select max(p.seq), count(*)
from (select m.seq from outbox_messages m where m.state = ?1 and m.seq > ?2 and m.seq <= ?3 order by m.seq limit 10000) p

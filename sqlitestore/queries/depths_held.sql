-- What relays hold, by state, as far as no claim has found their lease lapsed.
select count(m.seq), count(w.seq), coalesce(sum(w.attempts > 0), 0)
from outbox_claim c
join outbox_listed l on l.claim = c.id
left join outbox_message m on m.seq = l.seq
left join outbox_waiting w on w.seq = l.seq
where c.relay is not null

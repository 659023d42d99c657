-- What there is of each key in a destination. 0: nothing that could be claimed. 1: a live relay holds it. 2: ready messages only,
-- none of them in a claim, so that they are its line. 3: something else, for which the line has to be read.
select e.value,
       case when exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim join outbox_relay r on r.id = c.relay
                         where l.key = e.value and c.destination = ?3) then 1
            when exists (select 1 from outbox_listed l where l.key = e.value)
                 or exists (select 1 from outbox_waiting w where w.key = e.value and (w.holds or w.available_at <= ?2))
                 or exists (select 1 from outbox_dead d where d.key = e.value and d.holds) then 3
            when exists (select 1 from outbox_message m where m.key = e.value) then 2
            else 0 end
from json_each(?1) e

-- Every message that has not ended, whatever its state. One that holds its key lets no younger one of the key pass;
-- due_at is null for a dead one.
create view outbox_messages as
select 'ready' as state, m.seq, m.id, m.topic, m.key, m.key is not null as holds, m.published_at as due_at, 0 as lapses,
       length(m.payload) as size, 0 as attempts, 0 as generation, '' as error_class, '' as last_error, m.published_at,
       m.published_at as at
from outbox_message m
union all
select 'waiting', w.seq, w.id, w.topic, w.key, w.holds and w.key is not null, w.available_at, w.lapses,
       length(w.payload), w.attempts, w.generation, coalesce(w.error_class, ''), coalesce(w.last_error, ''), w.published_at,
       coalesce(w.first_failed_at, w.failed_at, w.published_at)
from outbox_waiting w
union all
select 'dead', d.seq, d.id, d.topic, d.key, d.holds, null, d.lapses,
       length(d.payload), d.attempts, d.generation, coalesce(d.error_class, ''), coalesce(d.last_error, ''), d.published_at,
       d.died_at
from outbox_dead d;

-- What claims list. The relay is live while its lease lasts; lapses are those that the next claim begins with.
create view outbox_held as
select l.seq, l.key, c.id as claim, c.destination, c.claimed_at, r.id is not null as live,
       c.lapses + (c.relay is not null and r.id is null) as lapses, r.id as relay, r.host, r.pid
from outbox_listed l
join outbox_claim c on c.id = l.claim
left join outbox_relay r on r.id = c.relay and r.lease_until > (select now from outbox_clock);

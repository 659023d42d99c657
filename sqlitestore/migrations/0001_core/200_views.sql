-- Every message wherever it is stored, in one form. The casts give each column one type in all parts; without them SQLite
-- would make the whole view before it looks for anything in it.
create view outbox_stored as
select cast('message' as text) as place, cast('ready' as text) as state, m.seq, cast(0 as integer) as generation, m.id, m.topic, m.key,
       cast(m.key is not null as integer) as holds, cast(null as text) as destination, cast(0 as integer) as attempts,
       cast(0 as integer) as lapses, cast(null as integer) as available_at, cast(null as text) as error_class,
       cast(null as text) as last_error, cast(null as text) as actor, m.published_at, m.expires_at, cast(null as integer) as ended_at,
       cast(m.published_at as integer) as held_since, m.headers, m.payload
from outbox_message m
union all
select cast('waiting' as text), cast('waiting' as text), w.seq, w.generation, w.id, w.topic, w.key,
       cast(w.holds and w.key is not null as integer), w.destination, w.attempts,
       w.lapses, w.available_at, w.error_class,
       w.last_error, cast(null as text), w.published_at, w.expires_at, cast(null as integer),
       cast(coalesce(w.first_failed_at, w.failed_at, w.published_at) as integer), w.headers, w.payload
from outbox_waiting w
union all
select cast('dead' as text), cast('dead' as text), d.seq, d.generation, d.id, d.topic, d.key,
       d.holds, d.destination, d.attempts,
       d.lapses, cast(null as integer), d.error_class,
       d.last_error, cast(null as text), d.published_at, d.expires_at, d.died_at,
       cast(d.died_at as integer), d.headers, d.payload
from outbox_dead d
union all
select cast('archive' as text), a.outcome, a.seq, a.generation, a.id, a.topic, a.key,
       cast(0 as integer), a.destination, a.attempts,
       cast(0 as integer), cast(null as integer), cast(null as text),
       a.detail, a.actor, a.published_at, a.expires_at, a.ended_at,
       cast(a.ended_at as integer), a.headers, a.payload
from outbox_archive a;

-- What claims list. The relay is live while its lease lasts; lapses are those that the next claim begins with.
create view outbox_held as
select l.seq, l.key, c.id as claim, c.destination, c.claimed_at, r.id is not null as live,
       c.lapses + (c.relay is not null and r.id is null) as lapses, r.id as relay, r.host, r.pid
from outbox_listed l
join outbox_claim c on c.id = l.claim
left join outbox_relay r on r.id = c.relay and r.lease_until > (select now from outbox_clock);

-- Messages for people: ready, in_flight, waiting, dead, and, as far as they are kept, delivered, dropped, expired, discarded.
-- Times are milliseconds since 1970: datetime(published_at / 1000, 'unixepoch').
create view outbox_messages as
select case when s.place in ('message', 'waiting')
                 and exists (select 1 from outbox_listed l join outbox_claim c on c.id = l.claim where l.seq = s.seq and c.relay is not null)
            then 'in_flight' else s.state end as state,
       s.id, s.topic, s.key, s.attempts, s.available_at, s.last_error, s.published_at, cast(s.payload as text) as payload_text
from outbox_stored s;

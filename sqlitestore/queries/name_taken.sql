-- Whether a dedup key, or an id of a caller's as a key of topic '', is taken.
select count(*)
from outbox_dedup d
where d.topic = ?1 and d.dedup_key = ?2
  and (d.expires_at > ?3
       or exists (select 1 from outbox_message m where m.seq = d.seq)
       or exists (select 1 from outbox_waiting w where w.seq = d.seq)
       or exists (select 1 from outbox_dead x where x.seq = d.seq))

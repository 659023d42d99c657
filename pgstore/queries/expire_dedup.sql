-- Dedup keys whose window is over and whose message is gone.
delete from outbox.dedup d
where (d.topic, d.dedup_key) in (
    select o.topic, o.dedup_key
    from outbox.dedup o
    where o.expires_at < clock_timestamp()
      and not exists (select from outbox.message m where m.seq = o.seq)
      and not exists (select from outbox.waiting w where w.seq = o.seq)
      and not exists (select from outbox.dead e where e.seq = o.seq)
    order by o.expires_at
    limit $1
    for update skip locked
)

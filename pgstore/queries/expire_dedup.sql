-- Dedup keys whose window is over and whose message is gone. A publisher may take a row over between this
-- statement's snapshot and the lock: then the newer version of the row is checked again, but its message is not in
-- the snapshot and would pass for gone. s is the row as the snapshot has it: another seq, not ours to remove.
delete from outbox.dedup d
where (d.topic, d.dedup_key) in (
    select o.topic, o.dedup_key
    from outbox.dedup o
    join outbox.dedup s on s.topic = o.topic and s.dedup_key = o.dedup_key and s.seq = o.seq
    where o.expires_at < (select clock_timestamp()) -- taken once, so that it ends the scan of the index
      and not exists (select from outbox.message m where m.seq = o.seq)
      and not exists (select from outbox.waiting w where w.seq = o.seq)
      and not exists (select from outbox.dead e where e.seq = o.seq)
    order by o.expires_at
    limit $1
    for update of o skip locked
)

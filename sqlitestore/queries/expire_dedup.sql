delete from outbox_dedup
where (topic, dedup_key) in (
    select d.topic, d.dedup_key
    from outbox_dedup d
    where d.expires_at <= ?1
      and not exists (select 1 from outbox_message m where m.seq = d.seq)
      and not exists (select 1 from outbox_waiting w where w.seq = d.seq)
      and not exists (select 1 from outbox_dead x where x.seq = d.seq)
    order by d.expires_at
    limit ?2)

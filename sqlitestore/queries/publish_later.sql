insert into outbox_waiting (seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, published_at,
    available_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

insert or replace into outbox_dedup (topic, dedup_key, id, seq, expires_at) values (?1, ?2, ?3, ?4, ?5)

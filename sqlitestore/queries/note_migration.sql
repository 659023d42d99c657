insert into outbox_migration (version, name, applied_at) values (?1, ?2, (select now from outbox_clock))

select m.version, m.name, m.applied_at from outbox_migration m order by m.version

select m.version, m.name, m.applied_at, m.min_compatible from outbox.migration m order by m.version

insert into outbox_relay (id, lease_until, lease, beat, host, pid, version, engine, lanes, counters, started_at, seen_at, settings)
values (?1, ?2 + ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?2, ?2, ?11)

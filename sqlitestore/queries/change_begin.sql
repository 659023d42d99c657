insert into outbox_operation (verb, filter, cursor, rate, state, actor, reason, started_at)
values (?1, ?2, ?3, ?4, 'running', ?5, ?6, ?7)
returning id

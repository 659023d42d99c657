insert into outbox_operation (verb, filter, cursor, state, actor, reason, matched, changed, started_at, finished_at)
values (?1, json_object(?2, ?3), '{}', 'done', ?4, ?5, 1, 1, ?6, ?6)
returning id

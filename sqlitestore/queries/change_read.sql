select filter, cursor, rate, state, matched, changed, held, bare, actor, reason from outbox_operation where id = ?1 and verb = ?2

select scope, name, reason, actor, at from outbox_control order by scope desc, name

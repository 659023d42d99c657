insert or replace into outbox_control (scope, name, reason, actor, at) values (?1, ?2, ?3, ?4, ?5)

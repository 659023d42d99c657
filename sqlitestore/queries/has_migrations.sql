select count(*) from sqlite_schema s where s.type = 'table' and s.name = 'outbox_migration'

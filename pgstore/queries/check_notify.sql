select coalesce((select s.value from outbox.setting s where s.name = 'notify'), 'publish'),
       exists (select from pg_trigger t where t.tgrelid = 'outbox.message'::regclass and t.tgname = 'notify_relays' and t.tgenabled <> 'D')

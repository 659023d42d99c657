select coalesce((select s.value from outbox_setting s where s.name = 'archive'), 'off')

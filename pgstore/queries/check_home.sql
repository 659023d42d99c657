select coalesce((select s.value from outbox.setting s where s.name = 'home'), ''), outbox.home()

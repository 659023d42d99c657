update outbox_sequence set wake = wake + 1, change = change + 1

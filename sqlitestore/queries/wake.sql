update outbox_sequence set wake = wake + 1

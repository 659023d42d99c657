update outbox_sequence set gone = gone + ?1, wake = wake + ?2

update outbox_sequence set seq = seq

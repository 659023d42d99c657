select seq, wake from outbox_sequence

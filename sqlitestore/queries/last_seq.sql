select seq from outbox_sequence

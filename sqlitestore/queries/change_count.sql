select change from outbox_sequence

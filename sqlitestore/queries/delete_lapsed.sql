-- Their claims keep their name until somebody takes messages from them, so that a late settlement still counts.
delete from outbox_relay where lease_until <= ?1

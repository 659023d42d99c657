-- What rates are made of: every message takes a number, and settling counts those that leave the ready ones.
select (select now from outbox_clock), seq, gone from outbox_sequence

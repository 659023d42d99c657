-- The keys of a call that takes several statements, $1 being an array in text form: locked once, in order.
select outbox.lock_keys($1::text::text[])

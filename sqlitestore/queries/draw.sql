-- As many numbers as there are messages: the last of them, and the time. The first statement of every publishing, so
-- that the transaction is the writer before it has read anything.
update outbox_sequence set seq = seq + ?1
returning seq, (select now from outbox_clock)

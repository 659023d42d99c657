select l.seq from outbox.locate(array[$1::uuid]) l

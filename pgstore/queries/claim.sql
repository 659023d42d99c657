select state, floor, scanned, yielded, claimed, due_at, due_seq, cut, misfit, skipped_keys, blocked_keys, ended_keys,
       foreign_ids, lost_last, low, backend, stopped, mixed, next_due,
       fresh, streamed, absent, snapshot, now
from outbox.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, coalesce($12::timestamptz, '-infinity'), $13, $14, $15,
                  $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)

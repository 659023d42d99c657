select state, floor, scanned, yielded, claimed, due_at, due_seq, cut, misfit, skipped_keys, blocked_keys, ended_keys,
       foreign_ids, lost_last, low, backend, stopped, mixed, next_due,
       fresh, streamed, absent, snapshot, now
from outbox.claim(
    p_relay => $1, p_destination => $2, p_token => $3, p_limit => $4, p_bytes => $5, p_oversized => $6, p_closed => $7,
    p_floor => $8, p_share => $9, p_window => $10, p_window_only => $11,
    p_due_at => coalesce($12::timestamptz, '-infinity'), p_due_seq => $13, p_due_rows => $14,
    p_keys => $15, p_seqs => $16, p_foreign => $17, p_lost => $18, p_lost_after => $19,
    p_low => $20, p_backend => $21, p_base => $22, p_high => $23, p_known => $24, p_queue => $25, p_stream => $26)

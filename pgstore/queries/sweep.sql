select reached, seqs, keys from outbox.sweep($1, $2, $3, $4, $5, $6)

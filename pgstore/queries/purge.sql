select c.operation_id, c.matched, c.changed, c.held, 0::bigint, c.more
from outbox.purge(ids => $1, topic => $2, key => $3, error_class => $4, error_text => $5, older_than => $6,
    newer_than => $7, everything => $8, max_messages => $9, actor => $10, reason => $11, dry_run => $12, rate => $13, batch => $14,
    operation => $15, states => $16, holding => $17) c

package pgstore

import (
	"context"
	"strings"
)

// chunkStatements publish a chunk: plain messages, and others.
type chunkStatements struct{ insert, rows string }

// withLockKeys turns the line of a statement that locks the keys from a comment into SQL.
func withLockKeys(sql string) string { return strings.ReplaceAll(sql, "-- LockKeys: ", "") }

// lockFirst returns the statements for the chunks of one call. With LockKeys, a single chunk locks its keys in its own
// statement, without a further round trip; several could lock out of order, so that two calls wait for each other,
// and the keys of all are locked before the first. So they are before a COPY, which locks nothing.
func (p *Publisher) lockFirst(ctx context.Context, s session, es []entry, copied bool) (*chunkStatements, error) {
	if !p.cfg.LockKeys {
		return &p.plain, nil
	}
	keys := distinctKeys(es)
	switch {
	case len(keys) == 0:
		return &p.plain, nil
	case !copied && chunkLen(es) == len(es):
		return &p.locking, nil
	}
	var array textArray
	for _, key := range keys {
		array.text(key)
	}
	return &p.plain, s.exec(ctx, p.lockSQL, array.String())
}

func distinctKeys(es []entry) []string {
	var keys []string
	seen := map[string]bool{}
	for i := range es {
		if key := es[i].Key; key != "" && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

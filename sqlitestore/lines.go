package sqlitestore

import (
	"database/sql"
	"slices"
)

// keyKind is what claim_keys.sql says about a key.
type keyKind int

const (
	keyIdle  keyKind = iota // nothing that could be claimed
	keyHeld                 // by a live relay
	keyPlain                // its line is what is ready of it
	keyOther
)

// lines are what is known of keys that were looked at together: to ask for each by itself costs more than all the rest.
type lines struct {
	kinds map[string]keyKind
	runs  map[string][]candidate // of plain ones
	cut   string                 // the run of this one goes on
}

// kind of a key that is not known is keyOther: it was not looked at, or is no UTF-8 and so did not pass through JSON unharmed.
func (l *lines) kind(key string) keyKind {
	if kind, ok := l.kinds[key]; ok {
		return kind
	}
	return keyOther
}

// lookAtKeys reads what there is of keys, and the fronts of those lines that are plain.
func (p *pick) lookAtKeys(keys []string) error {
	p.lines = lines{kinds: map[string]keyKind{}, runs: map[string][]candidate{}}
	if len(keys) == 0 || p.single {
		return nil
	}
	err := p.t.often("claim_keys", []any{array(keys), p.t.now, p.query.Destination}, func(rows *sql.Rows) error {
		var key string
		var kind keyKind
		err := rows.Scan(&key, &kind)
		p.lines.kinds[key] = kind
		return err
	})
	if err != nil {
		return err
	}
	var plain []string
	for _, key := range keys {
		if p.lines.kind(key) == keyPlain {
			plain = append(plain, key)
		}
	}
	if len(plain) == 0 {
		return nil
	}
	limit := p.query.Limit - len(p.rows) + 1
	rows, err := p.candidates("claim_runs", array(plain), limit)
	if err != nil {
		return err
	}
	for _, c := range rows {
		p.lines.runs[c.key] = append(p.lines.runs[c.key], c)
	}
	if len(rows) == limit {
		p.lines.cut = rows[limit-1].key
	}
	return nil
}

// keysOf are the keys of a window that a run may be taken of.
func (p *pick) keysOf(rows []candidate) (keys []string) {
	seen := map[string]bool{"": true}
	for i := range rows {
		c := &rows[i]
		if !seen[c.key] && !p.visited[c.key] && c.claim == 0 && p.topics.takes(c.topic) && p.topics.keyOf(c) != "" {
			seen[c.key] = true
			keys = append(keys, c.key)
		}
	}
	return keys
}

// takeKey is takeRun, by what is known already if that is enough.
func (p *pick) takeKey(key string) (left bool, err error) {
	run := p.lines.runs[key]
	// A message that the lane does not take in order may be of the line, or not.
	odd := func(c candidate) bool { return !p.topics.takes(c.topic) || p.topics.keyOf(&c) == "" }
	goesOn := key == p.lines.cut && len(p.rows)+len(run) <= p.query.Limit
	switch {
	case p.lines.kind(key) == keyHeld:
		p.visited[key] = true
		return true, nil
	case p.lines.kind(key) != keyPlain || len(run) == 0 || goesOn || slices.ContainsFunc(run, odd):
		return p.takeRun(key)
	}
	p.visited[key] = true
	for i := range run {
		if !p.take(&run[i]) {
			return true, nil
		}
	}
	return false, nil
}

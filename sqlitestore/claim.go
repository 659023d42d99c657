package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// Claim takes messages for one lane; see outbox.Store.
func (s *Store) Claim(ctx context.Context, q outbox.ClaimQuery) (batch outbox.Batch, err error) {
	l := s.lane(q.Relay, q.Destination)
	l.mu.Lock()
	defer l.mu.Unlock()
	err = s.write(ctx, func(t *tx) error {
		batch, err = claim(t, l, q)
		return err
	})
	if err != nil {
		l.forget()
		return outbox.Batch{}, s.explain("claim", err)
	}
	return batch, nil
}

func claim(t *tx, l *lane, q outbox.ClaimQuery) (batch outbox.Batch, err error) {
	gone, err := t.exec("delete_lapsed", t.now)
	if err != nil {
		return batch, err
	}
	if gone > 0 {
		if _, err := t.exec("note_change"); err != nil {
			return batch, err
		}
	}
	var change int64
	if err := t.row("change_count", nil, &change); err != nil {
		return batch, err
	}
	l.look(change, array(q.Closed), t.now)
	p := &pick{t: t, lane: l, query: q, visited: map[string]bool{}, taken: map[int64]bool{}}
	if p.topics, err = laneTopics(t, &q); err != nil {
		return batch, err
	}
	if err := p.fill(); err != nil {
		return batch, err
	}
	batch.Starved = p.full && len(p.rows) == 0
	batch.More = !batch.Starved && (p.full || p.unlooked)
	if batch.NextDue, err = p.nextDue(); err != nil {
		return batch, err
	}
	for _, rows := range p.split() {
		c, err := p.list(rows)
		if err != nil {
			return batch, err
		}
		batch.Claims = append(batch.Claims, c)
	}
	return batch, nil
}

// nextDue is the time until the lane's next waiting message is due; zero if none is near.
func (p *pick) nextDue() (left time.Duration, err error) {
	err = p.t.rows("claim_next_due", []any{p.t.now}, func(rows *sql.Rows) error {
		var topic, destination string
		var at int64
		err := rows.Scan(&topic, &at, &destination)
		meant := destination == "" || destination == p.query.Destination
		if err == nil && left == 0 && meant && p.topics.takes(topic) {
			left = duration(at - p.t.now)
		}
		return err
	})
	return left, err
}

// split parts what was taken into the future claims: messages of relays that died are kept apart from the others,
// because they may be what kills a relay, and a suspect is alone.
func (p *pick) split() (claims [][]candidate) {
	var suspect, fresh, lapsed []candidate
	for _, c := range p.rows {
		switch {
		case c.seq == p.suspect:
			suspect = append(suspect, c)
		case c.lapses > 0:
			lapsed = append(lapsed, c)
		default:
			fresh = append(fresh, c)
		}
	}
	for _, part := range [][]candidate{suspect, lapsed, fresh} {
		if len(part) > 0 {
			claims = append(claims, part)
		}
	}
	return claims
}

// list enters a new claim into the ledger and takes its messages from the claims that listed them.
func (p *pick) list(rows []candidate) (c outbox.Claim, err error) {
	type listed struct {
		Seq int64   `json:"seq"`
		Key *string `json:"key"`
	}
	var seqs, old []int64
	var list []listed
	for i := range rows {
		r := &rows[i]
		e := listed{Seq: r.seq}
		if key := p.topics.keyOf(r); key != "" {
			e.Key = &key
		}
		c.Lapses = max(c.Lapses, r.lapses)
		seqs, list = append(seqs, r.seq), append(list, e)
		if r.claim != 0 && !slices.Contains(old, r.claim) {
			old = append(old, r.claim)
		}
	}
	c.Ref = outbox.ClaimRef{Relay: p.query.Relay, Token: p.query.Token}
	err = p.t.row("claim_make", []any{p.query.Token.String(), p.query.Relay.String(), p.query.Destination, c.Lapses, p.t.now}, &c.Ref.ID)
	if err != nil {
		return c, err
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"claim_fence", []any{array(seqs)}},
		{"claim_list", []any{array(list), c.Ref.ID}},
		{"claim_hold", []any{array(seqs)}},
		{"delete_empty_claims", []any{array(old)}},
	} {
		if _, err := p.t.exec(step.query, step.args...); err != nil {
			return c, err
		}
	}
	c.Deliveries, err = p.fetch(seqs, c.Ref)
	return c, err
}

// fetch reads messages in publish order.
func (p *pick) fetch(seqs []int64, ref outbox.ClaimRef) (list []*outbox.Delivery, err error) {
	err = p.t.rows("claim_fetch", []any{array(seqs)}, func(rows *sql.Rows) error {
		d := &outbox.Delivery{Claim: ref}
		var id, headers string
		var attempts sql.NullInt64
		var expires sql.NullInt64
		var brokerTTL, published int64
		err := rows.Scan(&d.Seq, &id, &d.Topic, &d.Key, &d.Payload, &headers, &d.DedupKey, &attempts, &brokerTTL, &expires,
			&published, &d.Attempt, &d.Generation)
		if err != nil {
			return err
		}
		d.Attempt++
		d.BrokerTTL, d.PublishedAt = duration(brokerTTL), timeOf(published)
		if attempts.Valid {
			d.MaxAttempts = cmp.Or(int(attempts.Int64), outbox.Unlimited)
		}
		if expires.Valid {
			d.ExpiresAt = timeOf(expires.Int64)
		} else if p.query.TTL > 0 {
			expires = sql.NullInt64{Int64: published + milliseconds(p.query.TTL), Valid: true}
		}
		if expires.Valid {
			d.Deadline = time.Now().Add(duration(expires.Int64 - p.t.now))
		}
		d.Unreadable = readable(d, id, headers)
		list = append(list, d)
		return nil
	})
	return list, err
}

// readable sets what is stored as text. A row that somebody else has damaged is not to stop all others.
func readable(d *outbox.Delivery, id, headers string) (err error) {
	var m map[string]string
	var idErr error
	if d.ID, idErr = outbox.ParseID(id); idErr != nil {
		err = fmt.Errorf("message %d: %w", d.Seq, idErr)
	}
	if headersErr := json.Unmarshal([]byte(headers), &m); headersErr != nil {
		err = errors.Join(err, fmt.Errorf("headers of message %d: %w", d.Seq, headersErr))
	}
	if len(m) == 0 {
		m = nil
	}
	d.SetHeaders(m)
	return err
}

package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// Claim takes messages for one lane; see outbox.Store.
func (s *Store) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	r := s.relay(q.Relay)
	if r == nil {
		return outbox.Batch{}, fmt.Errorf("claim for relay %s: %w", q.Relay, outbox.ErrLeaseLost)
	}
	l := r.lane(q.Destination)
	if l.isBusy() {
		s.sweepBeside(ctx, l, q)
	}
	p := l.next(q.Limit, q.Bytes, s.signal.heard())
	answer, claims, err := s.claim(ctx, q, p)
	if err != nil {
		l.abandon(p)
		return outbox.Batch{}, s.explain("claim for "+q.Destination, err)
	}
	batch := outbox.Batch{Claims: claims, More: l.advance(p, answer, q.Limit, claims), Starved: *answer.misfit}
	if answer.nextDue != nil {
		batch.NextDue = time.Duration(*answer.nextDue) * time.Microsecond
	}
	r.hold(l, claims)
	if len(claims) > 0 {
		return batch, nil
	}
	found, err := s.sweepPage(ctx, l, q.Relay, q.Destination)
	batch.More = batch.More || found
	return batch, err
}

// claim repeats the call while somebody else has the claim lock: again after a few milliseconds, later in the
// queue for it.
func (s *Store) claim(ctx context.Context, q outbox.ClaimQuery, p probe) (*result, []outbox.Claim, error) {
	const patience = 50 * time.Millisecond
	begin := time.Now()
	for {
		answer, claims, err := s.claimOnce(ctx, q, p, time.Since(begin) > patience)
		p.look = nil
		var pgErr *pgconn.PgError
		switch {
		case errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable:
			err = s.endFrozenClaim(ctx)
			if err != nil {
				return nil, nil, err
			}
		case err != nil:
			return nil, nil, err
		case answer.state == "unknown":
			return nil, nil, outbox.ErrLeaseLost
		case answer.state == "done":
			return answer, claims, nil
		}
		pause := time.Millisecond + rand.N(3*time.Millisecond)
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

const lockNotAvailable = "55P03"

// claimOnce sends the claim and the fetch of what it brings in one write.
func (s *Store) claimOnce(ctx context.Context, q outbox.ClaimQuery, p probe, queue bool) (*result, []outbox.Claim, error) {
	closed, err := closedTopics(q.Closed)
	if err != nil {
		return nil, nil, err
	}
	answer := &result{}
	fetched := fetch{relay: q.Relay, token: q.Token, now: time.Now()}
	var known *ledger
	errs := s.runWith(ctx, func(conn *pgx.Conn) [][]call {
		known = s.ledgerOf(conn)
		claim := call{s.sql.claim, claimArgs(q, p, closed, known, queue), func(rows pgx.Rows) error {
			err := answer.scan(rows)
			s.learn(known, answer)
			return err
		}}
		groups := [][]call{s.transactionWithin(claimLockDeadline(ctx), claim)}
		if !p.following {
			groups = append(groups, []call{s.fetchCall(q, &fetched, nil)})
		}
		if p.look != nil {
			p.look.on(known, p.base, s.connections.Load())
			groups = append(groups, s.lookCall(q, p.look))
		}
		return groups
	})
	answers := 2
	if p.following {
		answers = 1
	}
	if len(errs) > answers { // the claim has its own answer, whatever became of the look
		errs = errs[:answers]
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	if p.following && answer.state == "done" {
		if err := s.fetchBesides(ctx, q, p, answer, &fetched); err != nil {
			return nil, nil, err
		}
	}
	if p.look != nil {
		p.base.learn(p.look, time.Now())
	}
	return answer, fetched.claims(), nil
}

// claimArgs are those of queries/claim.sql, line by line: what is asked for, the window, due rows, other candidates, and what
// is known on this connection.
func claimArgs(q outbox.ClaimQuery, p probe, closed any, known *ledger, queue bool) []any {
	below := p.base.on(known)
	return []any{
		q.Relay, q.Destination, q.Token, q.Limit, q.Bytes, q.Oversized, closed,
		p.floor, p.share, p.window, p.windowOnly,
		p.due.at, p.due.seq, p.due.rows,
		orEmpty(p.keys), orEmpty(p.seqs), orEmpty(p.foreign), p.lost, p.lostAfter,
		known.low, known.backend, below.base, below.high, orEmpty(below.known), queue, p.streamedSeqs(),
	}
}

func (s *Store) fetchCall(q outbox.ClaimQuery, f *fetch, known []int64) call {
	return call{s.sql.fetch, []any{q.Token, q.Relay, lifeOrNull(q.TTL), orEmpty(known)}, f.scan}
}

// fetchBesides makes deliveries of what the stream has brought, and fetches what else was claimed.
func (s *Store) fetchBesides(ctx context.Context, q outbox.ClaimQuery, p probe, answer *result, f *fetch) error {
	for _, m := range p.streamed {
		if _, taken := slices.BinarySearch(answer.streamed, m.seq); !taken {
			continue
		}
		d, err := m.delivery(f, *answer.now, q.TTL)
		if err != nil {
			return err
		}
		f.add(*answer.fresh, 0, d)
	}
	if *answer.claimed == len(answer.streamed) {
		return nil
	}
	return errors.Join(s.run(ctx, []call{s.fetchCall(q, f, answer.streamed)})...)
}

// lifeOrNull is a duration as an argument; zero is no end.
func lifeOrNull(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return d
}

// claimLockDeadline ends the wait for the claim lock well before the call: only then is it known who holds it.
func claimLockDeadline(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return lockDeadline
	}
	const longest = 2 * time.Second
	wait := min(max(time.Until(deadline)/3, 10*time.Millisecond), longest)
	return strconv.FormatInt(wait.Milliseconds(), 10)
}

func closedTopics(closed outbox.TopicSet) (any, error) {
	if len(closed) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(closed)
	return string(b), err
}

// orEmpty makes an empty SQL array of a nil slice: a null array would make its comparisons null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (r *result) scan(rows pgx.Rows) error {
	var snapshot *string
	err := rows.Scan(&r.state, &r.floor, &r.scanned, &r.yielded, &r.claimed, &r.dueAt, &r.dueSeq, &r.cut, &r.misfit, &r.skipped,
		&r.blocked, &r.ended, &r.foreign, &r.lostLast, &r.low, &r.backend, &r.stopped, &r.mixed, &r.nextDue,
		&r.fresh, &r.streamed, &r.absent, &snapshot, &r.now)
	if err != nil || snapshot == nil {
		return err
	}
	slices.Sort(r.streamed)
	r.snapshot, err = parseSnapshot(*snapshot)
	return err
}

// fetch gathers the rows of claimed messages.
type fetch struct {
	relay outbox.ID
	token outbox.Token
	now   time.Time
	found []outbox.Claim

	// Most messages of a batch have the topic and the headers of the one before.
	topic   string
	text    string // of headers
	headers map[string]string
	bad     error // of the text
}

func (f *fetch) scan(rows pgx.Rows) error {
	r := newRow(rows)
	d := &outbox.Delivery{}
	claim, lapses := r.bigint(), r.integer()
	d.Seq, d.ID = r.bigint(), r.uuid()
	d.Topic, d.Key = f.intern(r.bytes()), r.text()
	d.Payload = bytes.Clone(r.bytes())
	d.Unreadable = f.setHeaders(d, r.bytes())
	d.DedupKey = r.text()
	d.MaxAttempts = attemptLimit(r.integerOrNull())
	if µs := r.bigintOrNull(); µs != nil {
		d.BrokerTTL = time.Duration(*µs) * time.Microsecond
	}
	if left := r.bigintOrNull(); left != nil {
		d.Deadline = f.now.Add(time.Duration(*left) * time.Microsecond)
	}
	d.PublishedAt = r.timestamptz()
	d.Generation, d.Attempt = r.integer(), r.integer()+1
	if err := r.end(); err != nil {
		return err
	}
	f.add(claim, lapses, d)
	return nil
}

func (f *fetch) intern(topic []byte) string {
	if string(topic) != f.topic {
		f.topic = string(topic)
	}
	return f.topic
}

func attemptLimit(stored *int) int {
	switch {
	case stored == nil:
		return 0
	case *stored == 0:
		return outbox.Unlimited
	}
	return *stored
}

// setHeaders refuses what the table's CHECK would not have let in. An error of the fetch would be repeated for ever, and
// keep all others waiting (TestUnreadableRow).
func (f *fetch) setHeaders(d *outbox.Delivery, text []byte) error {
	if string(text) != f.text {
		f.text, f.headers, f.bad = string(text), map[string]string{}, nil
		if err := json.Unmarshal(text, &f.headers); err != nil {
			f.bad = fmt.Errorf("the headers are no object of texts: %w", err)
		}
	}
	d.SetHeaders(maps.Clone(f.headers)) // each has its own: somebody may write into it
	return f.bad
}

func (f *fetch) add(claim int64, lapses int, d *outbox.Delivery) {
	d.Claim = outbox.ClaimRef{ID: claim, Relay: f.relay, Token: f.token}
	i := slices.IndexFunc(f.found, func(c outbox.Claim) bool { return c.Ref.ID == claim })
	if i < 0 {
		i = len(f.found)
		f.found = append(f.found, outbox.Claim{Ref: d.Claim, Lapses: lapses})
	}
	f.found[i].Deliveries = append(f.found[i].Deliveries, d)
}

func (f *fetch) claims() []outbox.Claim {
	for _, c := range f.found {
		slices.SortFunc(c.Deliveries, func(a, b *outbox.Delivery) int { return int(a.Seq - b.Seq) })
	}
	return f.found
}

// endFrozenClaim terminates the backend that holds the claim lock for a client that has stopped in the middle
// of sending its claim.
func (s *Store) endFrozenClaim(ctx context.Context) error {
	var ended int
	errs := s.run(ctx, s.transaction(call{s.sql.endFrozenClaim, nil,
		func(rows pgx.Rows) error { return rows.Scan(&ended) }}))
	if errs[0] != nil {
		return errs[0]
	}
	if ended > 0 {
		s.log.WarnContext(ctx, "ended a connection that held the claim lock and had stopped sending")
	}
	return nil
}

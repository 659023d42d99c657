package outboxtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// wrongStore stands before a sound one and changes what goes in or comes out. Nil hooks change nothing.
type wrongStore struct {
	outbox.Store
	query   func(q *outbox.ClaimQuery)
	batch   func(b *outbox.Batch)
	outcome func(o *outbox.Outcome)
	after   func(o outbox.Outcome)
	answer  func(o outbox.Outcome, a *outbox.Settled)
	info    func(i *outbox.RelayInfo)
	orders  func(o *outbox.Orders)
	known   func(i outbox.RelayInfo, known []outbox.Token) []outbox.Token
	wait    func(ctx context.Context, seen uint64, until time.Time) (uint64, error)
	context func(ctx context.Context) context.Context
}

func (s *wrongStore) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	if s.query != nil {
		s.query(&q)
	}
	batch, err := s.Store.Claim(s.through(ctx), q)
	if s.batch != nil {
		s.batch(&batch)
	}
	return batch, err
}

func (s *wrongStore) Settle(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Settled, error) {
	changed := slices.Clone(outcomes)
	for i := range changed {
		if s.outcome != nil {
			s.outcome(&changed[i])
		}
	}
	answers, err := s.Store.Settle(s.through(ctx), changed)
	for i := range answers {
		if s.after != nil {
			s.after(outcomes[i])
		}
		if s.answer != nil {
			s.answer(outcomes[i], &answers[i])
		}
	}
	return answers, err
}

func (s *wrongStore) Beat(ctx context.Context, i outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	if s.info != nil {
		s.info(&i)
	}
	if s.known != nil {
		known = s.known(i, known)
	}
	orders, err := s.Store.Beat(s.through(ctx), i, known)
	if s.orders != nil {
		s.orders(&orders)
	}
	return orders, err
}

func (s *wrongStore) Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
	if s.wait != nil {
		return s.wait(ctx, seen, until)
	}
	return s.Store.Wait(ctx, seen, until)
}

func (s *wrongStore) through(ctx context.Context) context.Context {
	if s.context != nil {
		return s.context(ctx)
	}
	return ctx
}

// hooked plants the hooks that make returns for the store's box.
func hooked(make func(b *box) wrongStore) func(h *harness) {
	return func(h *harness) {
		hooks := make(h.store.box)
		h.wrapStore = func(s outbox.Store) outbox.Store {
			w := hooks
			w.Store = s
			return &w
		}
	}
}

// onRow makes a hook that changes a settled message in the store.
func onRow(b *box, kind outbox.OutcomeKind, change func(r *row, o outbox.Outcome)) func(o outbox.Outcome) {
	return func(o outbox.Outcome) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r := b.rows[o.Seq]; r != nil && o.Kind == kind {
			change(r, o)
		}
	}
}

// turned makes a hook that takes outcomes of one kind for another.
func turned(from, to outbox.OutcomeKind) func(o *outbox.Outcome) {
	return func(o *outbox.Outcome) {
		if o.Kind == from {
			o.Kind = to
			o.Attempts = 1
		}
	}
}

// each makes a hook that changes every delivery.
func each(change func(c outbox.Claim, d *outbox.Delivery)) func(b *outbox.Batch) {
	return func(b *outbox.Batch) {
		for _, c := range b.Claims {
			for _, d := range c.Deliveries {
				change(c, d)
			}
		}
	}
}

func wrongStores() []wrong {
	return slices.Concat(
		wrongClaims(), wrongSettlements(), wrongGivingBack(), wrongRetries(),
		wrongBeats(), wrongStops(), wrongWaits(),
	)
}

func wrongClaims() []wrong {
	return []wrong{
		{"the limit is ignored", hooked(func(*box) wrongStore {
			return wrongStore{query: func(q *outbox.ClaimQuery) { q.Limit = 1000 }}
		}), []string{
			"a claim takes at most its limit and says that there is more", "a suspect counts towards the limits",
			"a head that is due is not kept out by those behind it",
		}},
		{"the bytes are ignored", hooked(func(*box) wrongStore {
			return wrongStore{query: func(q *outbox.ClaimQuery) { q.Bytes = 1 << 40 }}
		}), []string{
			"a claim takes at most its bytes", "a message beyond the bytes is taken only by an empty lane",
			"a suspect counts towards the limits",
		}},
		{"a message beyond the bytes never comes", hooked(func(*box) wrongStore {
			return wrongStore{query: func(q *outbox.ClaimQuery) { q.Oversized = false }}
		}), []string{"a message beyond the bytes is taken only by an empty lane"}},
		{"one message is claimed at a time", hooked(func(*box) wrongStore {
			return wrongStore{query: func(q *outbox.ClaimQuery) { q.Limit = 1 }}
		}), []string{"a hot key goes in long runs"}},
		{"it never says that there is more", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) { b.More = false }}
		}), []string{"a claim takes at most its limit and says that there is more"}},
		{"it never says when something is due", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) { b.NextDue = 0 }}
		}), []string{"a delayed message comes at its time by the outbox's clock"}},
		{"a claim is in reverse", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) {
				for _, c := range b.Claims {
					slices.Reverse(c.Deliveries)
				}
			}}
		}), []string{
			"ten messages are kept in the order of the call", "a hot key goes in long runs", "redriven messages of a key keep their order",
		}},
		{"a lapse counts as an attempt", hooked(func(*box) wrongStore {
			return wrongStore{batch: each(func(c outbox.Claim, d *outbox.Delivery) { d.Attempt += c.Lapses })}
		}), []string{"a lapsed relay's messages are claimable, with the lapse counted and no attempt", "lapses add up"}},
		{"lapses do not add up", hooked(func(*box) wrongStore {
			return wrongStore{batch: func(b *outbox.Batch) {
				for i := range b.Claims {
					b.Claims[i].Lapses = min(b.Claims[i].Lapses, 1)
				}
			}}
		}), []string{"lapses add up"}},
		{"a deadline is by the outbox's clock", hooked(func(*box) wrongStore {
			return wrongStore{batch: each(func(_ outbox.Claim, d *outbox.Delivery) { d.Deadline = d.ExpiresAt })}
		}), []string{"a message tells its deadline by the local clock"}},
		{"the causes are lost", hooked(func(*box) wrongStore {
			return wrongStore{batch: each(func(_ outbox.Claim, d *outbox.Delivery) { delete(d.Headers, "Outbox-Causation") })}
		}), []string{"a message tells what caused it"}},
		{"a claim gives no life", hooked(func(*box) wrongStore {
			return wrongStore{batch: each(func(_ outbox.Claim, d *outbox.Delivery) {
				if d.ExpiresAt.IsZero() {
					d.Deadline = time.Time{}
				}
			})}
		}), []string{"a claim's TTL is the life of messages without their own"}},
		{"a long life overflows", hooked(func(*box) wrongStore {
			return wrongStore{batch: each(func(_ outbox.Claim, d *outbox.Delivery) {
				if !d.ExpiresAt.IsZero() {
					d.Deadline = time.Now().Add(time.Duration(d.ExpiresAt.Unix()-time.Now().Unix()) * time.Second)
				}
			})}
		}), []string{"a message that expires in a far century is not expired"}},
		{"an expired message never comes", func(h *harness) {
			r := &h.store.box.rules
			sound := soundRules()
			r.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && (r.expiresAt.IsZero() || r.expiresAt.After(p.now))
			}
		}, []string{"an expired message is claimable, to be settled as expired, and its key goes on"}},
		{"an empty claim is kept", hooked(func(b *box) wrongStore {
			return wrongStore{query: func(*outbox.ClaimQuery) {
				b.mu.Lock()
				defer b.mu.Unlock()
				id := b.rules.nextClaim(b)
				b.claims[id] = &claim{id: id}
			}}
		}), []string{"no message is claimed when there is none"}},
		{"an ended context is ignored", hooked(func(*box) wrongStore {
			return wrongStore{context: context.WithoutCancel}
		}), []string{"a call with an ended context changes nothing"}},
	}
}

func wrongSettlements() []wrong {
	return []wrong{
		{"a settlement goes by the message, without the fence", hooked(func(b *box) wrongStore {
			return wrongStore{outcome: func(o *outbox.Outcome) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if r := b.rows[o.Seq]; r != nil && r.claim != nil {
					o.Claim = outbox.ClaimRef{ID: r.claim.id, Relay: r.claim.relay}
				}
			}}
		}), []string{
			"a settlement after a takeover is fenced and changes nothing",
			"a settlement and a takeover at the same time never both count",
			"a stopping relay gives everything back",
			"a random schedule of failures keeps every promise",
		}},
		{"a settlement is fenced when the lease is over", hooked(func(b *box) wrongStore {
			return wrongStore{outcome: func(o *outbox.Outcome) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if r := b.relays[o.Claim.Relay]; r == nil || b.rules.lapsed(r, b.now()) {
					o.Claim.ID = -1
				}
			}}
		}), []string{"a late settlement counts while nobody has taken over"}},
		{"everything is reported as settled", hooked(func(*box) wrongStore {
			return wrongStore{answer: func(_ outbox.Outcome, a *outbox.Settled) { *a = outbox.SettledNow }}
		}), []string{"a repeated settlement is recognised", "a settlement of many claims is answered one by one"}},
		{"dropped messages are kept", hooked(func(*box) wrongStore {
			return wrongStore{outcome: turned(outbox.Dropped, outbox.Retried)}
		}), []string{"delivered, dropped and expired messages are gone"}},
		{"dead messages are thrown away", hooked(func(*box) wrongStore {
			return wrongStore{outcome: turned(outbox.Died, outbox.Dropped)}
		}), []string{
			"a dead message frees its key and keeps its error",
			"a dedup key of a dead message still keeps out duplicates",
		}},
		{"an error text is stored as it came", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Died, func(r *row, o outbox.Outcome) { r.text = o.Text })}
		}), []string{"an error text is made storable"}},
		{"an error text is cut within a character", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Died, func(r *row, o outbox.Outcome) {
				r.text = strings.ToValidUTF8(strings.ReplaceAll(o.Text, "\x00", ""), "?")
				r.text = r.text[:min(len(r.text), 2000)]
			})}
		}), []string{"an error text is made storable"}},
	}
}

func wrongGivingBack() []wrong {
	return []wrong{
		{"what is given back loses its place and its lapses", hooked(func(*box) wrongStore {
			return wrongStore{outcome: turned(outbox.GivenBack, outbox.Unlisted)}
		}), []string{
			"what is given back is offered first, without lapse or attempt",
			"giving back keeps the lapses",
		}},
		{"giving back one gives back its whole claim", hooked(func(b *box) wrongStore {
			return wrongStore{after: func(o outbox.Outcome) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if c := b.claims[o.Claim.ID]; c != nil && o.Kind == outbox.GivenBack {
					c.relay = outbox.ID{}
				}
			}}
		}), []string{"giving back a part keeps the rest claimed"}},
		{"giving back counts as an attempt", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.GivenBack, func(r *row, _ outbox.Outcome) { r.attempts++ })}
		}), []string{
			"what is given back is offered first, without lapse or attempt",
			"a random schedule of failures keeps every promise",
		}},
		{"what is given back is offered before an older one of its key", func(h *harness) {
			sound := soundRules()
			h.store.box.rules.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && (r.claim != nil || !p.box.hasGivenBack())
			}
			h.store.box.rules.inOrder = func(p *pick, r *row) bool {
				return sound.inOrder(p, r) && (r.claim != nil || !p.box.hasGivenBack())
			}
		}, []string{"a given-back message joins an older one that appeared meanwhile"}},
	}
}

func (b *box) hasGivenBack() bool {
	for _, c := range b.claims {
		if c.relay.IsZero() {
			return true
		}
	}
	return false
}

func wrongRetries() []wrong {
	return []wrong{
		{"a retry comes at once", hooked(func(*box) wrongStore {
			return wrongStore{outcome: func(o *outbox.Outcome) { o.Delay = 0 }}
		}), []string{"a retry counts the attempt and comes after its delay", "a retried message holds its key"}},
		{"attempts are forgotten", hooked(func(*box) wrongStore {
			return wrongStore{outcome: func(o *outbox.Outcome) { o.Attempts = 0 }}
		}), []string{"a retry counts the attempt and comes after its delay"}},
		{"a retry waits beyond the message's life", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Retried, func(r *row, o outbox.Outcome) {
				r.availableAt = b.now().Add(o.Delay)
			})}
		}), []string{"a retry comes no later than the message expires"}},
		{"a retry waits for the rest of its claim", func(h *harness) {
			sound := soundRules()
			h.store.box.rules.takes = func(p *pick, r *row) bool {
				return sound.takes(p, r) && (r.state == ready || r.claim != nil || len(p.box.claims) == 0)
			}
		}, []string{"a retry does not wait for the rest of its claim"}},
		{"a retried message does not hold its key", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Retried, func(r *row, _ outbox.Outcome) { r.holds = false })}
		}), []string{
			"a retried message holds its key",
			"followers of a failed head come after it, in order, unspent",
			"a random schedule of failures keeps every promise",
		}},
		{"an unlisted message that waited does not hold its key", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Unlisted, func(r *row, _ outbox.Outcome) { r.holds = false })}
		}), []string{"an unlisted message that waited holds its key"}},
		{"unlisted followers are forgotten", hooked(func(*box) wrongStore {
			return wrongStore{outcome: turned(outbox.Unlisted, outbox.Delivered)}
		}), []string{"followers of a failed head come after it, in order, unspent", "an unlisted message is claimable at once"}},
		{"an unlisted message counts as tried", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Unlisted, func(r *row, _ outbox.Outcome) { r.attempts++ })}
		}), []string{"an unlisted message is claimable at once"}},
	}
}

func wrongBeats() []wrong {
	return []wrong{
		{"it goes by the client's clock", func(h *harness) { h.store.box.now = time.Now }, []string{
			"a delayed message comes at its time by the outbox's clock",
			"a lapsed relay's messages are claimable, with the lapse counted and no attempt",
		}},
		{"a beat does not extend the lease", hooked(func(b *box) wrongStore {
			return wrongStore{info: func(i *outbox.RelayInfo) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if r := b.relays[i.ID]; r != nil {
					i.Lease = r.leaseUntil.Sub(b.now())
				}
			}}
		}), []string{"a claimed message is invisible for as long as its relay lives"}},
		{"all leases are of one length", hooked(func(*box) wrongStore {
			return wrongStore{info: func(i *outbox.RelayInfo) { i.Lease = time.Minute }}
		}), []string{"every relay has a lease of its own length"}},
		{"any relay is registered on the way", hooked(func(b *box) wrongStore {
			register := func(id outbox.ID) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if b.relays[id] == nil {
					info := outbox.RelayInfo{ID: id, Lanes: []outbox.LaneInfo{{Destination: "main", Topics: everything}}}
					b.relays[id] = &relay{info: info, leaseUntil: b.now().Add(time.Minute)}
				}
			}
			return wrongStore{
				query: func(q *outbox.ClaimQuery) { register(q.Relay) },
				info:  func(i *outbox.RelayInfo) { register(i.ID) },
			}
		}), []string{
			"an unknown relay can neither claim nor beat",
			"a lapsed relay can neither claim nor, once that was seen, beat",
		}},
		{"a beat gives back the claims of others", hooked(func(b *box) wrongStore {
			return wrongStore{info: func(i *outbox.RelayInfo) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, c := range b.claims {
					if c.relay != i.ID && i.Beat > 0 {
						c.relay = outbox.ID{}
					}
				}
			}}
		}), []string{"a beat gives back only what its own relay has forgotten"}},
		{"holders are not named", hooked(func(*box) wrongStore {
			return wrongStore{orders: func(o *outbox.Orders) { o.Holders = nil }}
		}), []string{"a registration learns who holds messages"}},
	}
}

func wrongStops() []wrong {
	return []wrong{
		{"a stopping relay keeps everything", hooked(func(*box) wrongStore {
			return wrongStore{info: func(i *outbox.RelayInfo) { i.Stopping = false }}
		}), []string{"a stopping relay gives everything back"}},
		{"a stopping relay loses everything", hooked(func(*box) wrongStore {
			return wrongStore{known: func(i outbox.RelayInfo, known []outbox.Token) []outbox.Token {
				if i.Stopping {
					return nil
				}
				return known
			}}
		}), []string{"a stopping relay keeps the claims that it names until its lease lapses"}},
	}
}

func wrongWaits() []wrong {
	return []wrong{
		{"Wait is never woken", hooked(func(*box) wrongStore {
			return wrongStore{wait: func(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
				return NewStore().Wait(ctx, seen, until)
			}}
		}), []string{
			"Wait returns early after a commit",
			"Wait returns early after messages were given back",
			"Wait returns early when a key is free for another lane",
			"Wait returns early after an operator's change",
		}},
		{"Wait forgets what happened before", hooked(func(b *box) wrongStore {
			return wrongStore{wait: func(ctx context.Context, _ uint64, until time.Time) (uint64, error) {
				s := &Store{box: b}
				seen, _ := s.wakeUps()
				return s.Wait(ctx, seen, until)
			}}
		}), []string{"a wake-up between looking and waiting is not lost"}},
		{"Wait ignores its time", hooked(func(*box) wrongStore {
			return wrongStore{wait: func(ctx context.Context, seen uint64, _ time.Time) (uint64, error) {
				<-ctx.Done()
				return seen, ctx.Err()
			}}
		}), []string{"Wait returns at its time"}},
		{"Wait hides the end of its context", hooked(func(*box) wrongStore {
			return wrongStore{wait: func(_ context.Context, seen uint64, _ time.Time) (uint64, error) { return seen, nil }}
		}), []string{"Wait returns with its context's error"}},
	}
}

package pgstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Settle ends or moves claimed messages; see outbox.Store. Claims of which everything that is left was
// delivered are named only by their id.
func (s *Store) Settle(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Settled, error) {
	results := make([]outbox.Settled, len(outcomes))
	for relay, indexes := range byRelay(outcomes) {
		st := settlement{store: s, relay: relay, known: s.relay(relay), outcomes: outcomes, results: results}
		st.divide(indexes)
		if err := st.execute(ctx); err != nil {
			return nil, s.explain("settle", err)
		}
	}
	return results, nil
}

func byRelay(outcomes []outbox.Outcome) map[outbox.ID][]int {
	groups := map[outbox.ID][]int{}
	for i, o := range outcomes {
		groups[o.Claim.Relay] = append(groups[o.Claim.Relay], i)
	}
	return groups
}

// settlement is one Settle call of one relay.
type settlement struct {
	store    *Store
	relay    outbox.ID
	known    *relay // nil after its lease was lost
	outcomes []outbox.Outcome
	results  []outbox.Settled

	whole map[outbox.ClaimRef][]int // claims of which everything was delivered
	parts []int                     // all other outcomes
}

func (st *settlement) divide(indexes []int) {
	claims := map[outbox.ClaimRef][]int{}
	delivered := map[outbox.ClaimRef]int{}
	for _, i := range indexes {
		o := &st.outcomes[i]
		claims[o.Claim] = append(claims[o.Claim], i)
		if o.Kind == outbox.Delivered {
			delivered[o.Claim]++
		}
	}
	st.whole = map[outbox.ClaimRef][]int{}
	for claim, of := range claims {
		if st.known != nil && delivered[claim] == len(of) && st.known.whole(claim, len(of)) {
			st.whole[claim] = of
		} else {
			st.parts = append(st.parts, of...)
		}
	}
}

func (st *settlement) execute(ctx context.Context) error {
	whole, parts := &wholeAnswer{}, &partsAnswer{}
	var calls []call
	if len(st.whole) > 0 {
		calls = append(calls, st.wholeCall(whole))
	}
	if len(st.parts) > 0 {
		calls = append(calls, st.partsCall(st.parts, parts))
	}
	if st.notifies() {
		calls = append(calls, call{statement: st.store.sql.notify, args: []any{""}})
	}
	if err := st.send(ctx, calls); err != nil {
		return err
	}
	st.apply(st.parts, parts)
	refused := st.applyWhole(whole.ended)
	st.archived(len(slices.Concat(slices.Collect(maps.Values(st.whole))...))-len(refused), whole.refused)
	st.archived(st.ended(st.parts), parts.refused)
	if len(refused) == 0 {
		return nil
	}
	// Somebody has taken the claim, or it was settled before: ask message by message.
	parts = &partsAnswer{}
	if err := st.send(ctx, []call{st.partsCall(refused, parts)}); err != nil {
		return err
	}
	st.apply(refused, parts)
	st.archived(st.ended(refused), parts.refused)
	return nil
}

// ended counts the outcomes that have ended messages.
func (st *settlement) ended(indexes []int) (n int) {
	for _, i := range indexes {
		kind := st.outcomes[i].Kind
		if st.results[i] == outbox.SettledNow && (kind == outbox.Delivered || kind == outbox.Dropped || kind == outbox.Expired) {
			n++
		}
	}
	return n
}

// archived takes note of what the archive did with messages that have ended.
func (st *settlement) archived(n int, why *string) {
	if st.store.keep() != nil {
		st.store.archived(n, why)
	}
}

// notifies reports whether other relays should look: a key may have been freed whose next message is theirs.
// (That something was given back, outbox.settle tells them itself.)
func (st *settlement) notifies() bool {
	if st.known == nil || st.store.cfg.Notify == NotifyOff {
		return false
	}
	return slices.ContainsFunc(st.outcomes, func(o outbox.Outcome) bool { return st.known.freesForOthers(o.Claim) })
}

func (st *settlement) send(ctx context.Context, calls []call) error {
	if st.store.cfg.SettleSync == SettleSyncOff {
		calls = append([]call{{statement: st.store.sql.asyncCommit}}, calls...)
	}
	return st.store.run(ctx, st.store.transaction(calls...))[0]
}

// wholeAnswer is what outbox.settle_delivered returns.
type wholeAnswer struct {
	ended   []int64
	refused *string // why the archive did not take what has ended
}

func (a *wholeAnswer) scan(rows pgx.Rows) error { return rows.Scan(&a.ended, &a.refused) }

func (st *settlement) wholeCall(answer *wholeAnswer) call {
	claims, tokens := make([]int64, 0, len(st.whole)), make([]outbox.Token, 0, len(st.whole))
	for claim := range st.whole {
		claims, tokens = append(claims, claim.ID), append(tokens, claim.Token)
	}
	return call{st.store.sql.settleDelivered, []any{st.relay, claims, tokens, st.store.keep()}, answer.scan}
}

// applyWhole records what settling whole claims did and returns the outcomes of those that were refused.
func (st *settlement) applyWhole(ended []int64) (refused []int) {
	for claim, of := range st.whole {
		if !slices.Contains(ended, claim.ID) {
			refused = append(refused, of...)
			continue
		}
		for _, i := range of {
			st.record(i, outbox.SettledNow)
		}
	}
	return refused
}

// partsAnswer is what outbox.settle returns.
type partsAnswer struct {
	results, lanes, keys []string
	refused              *string
}

func (a *partsAnswer) scan(rows pgx.Rows) error {
	return rows.Scan(&a.results, &a.lanes, &a.keys, &a.refused)
}

func (st *settlement) partsCall(indexes []int, answer *partsAnswer) call {
	n := len(indexes)
	claims, seqs, delays := make([]int64, n), make([]int64, n), make([]int64, n)
	tokens := make([]outbox.Token, n)
	kinds, attempts := make([]string, n), make([]int32, n)
	classes, texts := make([]string, n), make([]string, n)
	for to, i := range indexes {
		o := &st.outcomes[i]
		claims[to], tokens[to], seqs[to], delays[to] = o.Claim.ID, o.Claim.Token, o.Seq, o.Delay.Microseconds()
		kinds[to], attempts[to] = kindOf(o), int32(o.Attempts)
		classes[to], texts[to] = storable(o.Class), storable(o.Text)
	}
	notify := st.store.cfg.Notify != NotifyOff
	return call{st.store.sql.settle,
		[]any{st.relay, claims, tokens, seqs, kinds, attempts, delays, classes, texts, notify, st.store.keep()}, answer.scan}
}

// kindOf is the outcome's kind as outbox.settle knows it: a dead message that holds its key is parked.
func kindOf(o *outbox.Outcome) string {
	if o.Kind == outbox.Died && o.Holds {
		return "parked"
	}
	return o.Kind.String()
}

// apply records the results of single messages. Keys that were released are continued by their lane.
func (st *settlement) apply(indexes []int, answer *partsAnswer) {
	if len(indexes) == 0 {
		return
	}
	for n, i := range indexes {
		switch answer.results[n] {
		case "settled":
			st.record(i, outbox.SettledNow)
		case "before":
			st.record(i, outbox.SettledBefore)
		default:
			st.record(i, outbox.SettledFenced)
		}
	}
	if st.known == nil {
		return
	}
	for n, key := range answer.keys {
		st.known.lane(answer.lanes[n]).skip(key)
	}
}

func (st *settlement) record(i int, result outbox.Settled) {
	st.results[i] = result
	if st.known != nil {
		st.known.settled(st.outcomes[i])
	}
}

// maxErrorBytes bounds the error texts that are kept.
const maxErrorBytes = 2000

// storable makes text that PostgreSQL accepts: valid UTF-8 without NUL, cut between characters.
func storable(text string) string {
	if len(text) > maxErrorBytes {
		end := maxErrorBytes
		for end > maxErrorBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/model"
)

// TestModelIsFollowed leads an outbox along random ways through the model of the protocol. What claims bring must keep the
// model's guarantees, a settlement must count when it counts there, and after each step every message must be in the same
// table and every claim list the same messages.
func TestModelIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	for name, world := range model.Worlds() {
		world.Alone = false
		if world.Crashes > 0 || world.Dedup != nil {
			continue // TestBaseAfterCrash and others; TestLateMessageOfADedupKey
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			happened := map[model.Kind]int{}
			for range sizeOf(t, "OUTBOX_TEST_MODEL_WALKS", 6) {
				t.Run("walk", func(t *testing.T) {
					seed := walkSeed(t)
					w := newWalker(t, world.Config, seed)
					w.walk(80, happened)
					w.drain()
					if t.Failed() {
						t.Logf("OUTBOX_TEST_SEED=%d\n%s", seed, strings.Join(w.way, "\n"))
					}
				})
			}
			if t.Logf("%v", happened); happened[model.Settle]+happened[model.SettleWhole] == 0 {
				t.Error("nothing was settled")
			}
			for _, k := range []model.Kind{model.Publish, model.Commit, model.Claim, model.Deliver} {
				if happened[k] == 0 {
					t.Errorf("nothing did this: %s", k)
				}
			}
		})
	}
}

func walkSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("OUTBOX_TEST_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// processes are those of the model.
const processes = 2

// walker is an outbox that is led along.
type walker struct {
	*testing.T
	model.Config
	random    *rand.Rand
	state     model.State
	way       []string
	conn      *pgx.Conn
	database  string
	publisher *Publisher
	store     [processes]*Store
	relays    [processes]*testRelay
	numbers   [processes]int
	byNumber  map[int]*testRelay
	naming    [processes][]outbox.Token // by the heartbeat on its way
	held      [processes]map[int]*outbox.Delivery
	writers   map[int]*pgx.Conn
	seqs      map[int]int64
	ids       map[int]outbox.ID
}

func newWalker(t *testing.T, c model.Config, seed uint64) *walker {
	t.Helper()
	url := migratedDatabase(t)
	w := &walker{T: t, Config: c, random: rand.New(rand.NewPCG(seed, 0)), state: c.Begin(), conn: connect(t, url),
		publisher: newPublisher(t, &PublishConfig{Notify: NotifyOff}), byNumber: map[int]*testRelay{}, writers: map[int]*pgx.Conn{},
		seqs: map[int]int64{}, ids: map[int]outbox.ID{}}
	w.database = value[string](t, w.conn, "select current_database()")
	for p := range processes {
		w.store[p] = newStore(t, url, &Config{Notify: NotifyOff})
	}
	w.enroll()
	return w
}

// enroll registers the relays that the model has got.
func (w *walker) enroll() {
	w.Helper()
	for p := range processes {
		number := w.state.Relay(p)
		if number == w.numbers[p] {
			continue
		}
		w.numbers[p], w.held[p], w.relays[p] = number, map[int]*outbox.Delivery{}, nil
		if number > 0 {
			w.relays[p] = newTestRelay(w, w.store[p], ">")
			w.byNumber[number] = w.relays[p]
		}
	}
}

func (w *walker) walk(most int, happened map[model.Kind]int) {
	w.Helper()
	quiet := 0
	for range most {
		moves, fault := w.Moves(&w.state)
		if fault != nil {
			w.Errorf("a guarantee is broken: %v", fault)
			return
		}
		if len(moves) == 0 {
			return
		}
		m := w.draw(moves)
		if quiet++; slices.ContainsFunc(moves, func(m model.Move) bool { return m.Do != model.Claim }) {
			quiet = 0
		}
		if quiet > 4 { // claims bring something now, or never
			return
		}
		w.way = append(w.way, m.String())
		happened[m.Do]++
		w.step(m)
		w.compare()
		if w.Failed() {
			return
		}
	}
}

// draw takes a kind first, or those with many messages would be taken all the time.
func (w *walker) draw(moves []model.Move) model.Move {
	var kinds []model.Kind
	for _, m := range moves {
		if !slices.Contains(kinds, m.Do) {
			kinds = append(kinds, m.Do)
		}
	}
	kind := kinds[w.random.IntN(len(kinds))]
	moves = slices.DeleteFunc(moves, func(m model.Move) bool { return m.Do != kind })
	return moves[w.random.IntN(len(moves))]
}

func (w *walker) step(m model.Move) {
	w.Helper()
	p, i := m.Process, m.Message
	switch m.Do {
	case model.Claim, model.ClaimUnheard:
		w.claim(p, m.Limit, m.Do == model.Claim)
		return
	case model.Publish:
		w.publish(i)
	case model.Commit, model.RollBack, model.Prepare:
		w.end(i, m.Do)
	case model.Due:
		exec(w, w.conn, "update outbox.waiting set available_at = clock_timestamp() where seq = $1", w.seqs[i])
	case model.Redrive:
		w.change(w.store[0].Redrive, i)
	case model.Discard:
		w.change(w.store[0].Discard, i)
	case model.Lapse:
		expire(w, w.conn, w.byNumber[m.Relay])
	case model.SendBeat:
		w.naming[p] = slices.Clone(w.relays[p].known)
	case model.Beat:
		w.beat(p)
	case model.Settle:
		w.settle(p, i)
	case model.SettleWhole:
		w.settleAll(p, w.state.Records(p, i))
	case model.GiveBack:
		w.send(p, w.outcomes(p, outbox.GivenBack, append(w.state.Followers(&w.Config, p, i), i)...))
	case model.Rejoin:
		for i := range w.Keys {
			if w.state.Outcome(p, i) != "" {
				w.settle(p, i)
			}
		}
	}
	w.state = m.Next
	w.enroll()
}

func (w *walker) publish(i int) {
	w.Helper()
	conn := connect(w, w.conn.Config().ConnString())
	w.writers[i] = conn
	tx, err := conn.Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	m := outbox.Message{Topic: "a", Payload: []byte(strconv.Itoa(i))}
	if w.Keys[i] != 0 {
		m.Key = fmt.Sprint("k", w.Keys[i])
	}
	if i < len(w.Scheduled) && w.Scheduled[i] {
		m.Delay = time.Hour
	}
	receipts, err := w.publisher.Publish(w.Context(), tx, m)
	if err != nil {
		w.Fatal(err)
	}
	w.ids[i] = receipts[0].ID
	w.seqs[i] = value[int64](w, conn, "select seq from outbox.message where id = $1 union all select seq from outbox.waiting where id = $1", w.ids[i])
}

// end ends a publisher's transaction, or prepares it.
func (w *walker) end(i int, how model.Kind) {
	w.Helper()
	gid := "'" + w.database + strconv.Itoa(i) + "'"
	conn, prepared := w.writers[i], w.writers[i] == nil
	switch {
	case how == model.Prepare:
		exec(w, conn, "prepare transaction "+gid)
		w.writers[i] = nil
	case how == model.Commit && prepared:
		exec(w, w.conn, "commit prepared "+gid)
	case how == model.RollBack && prepared:
		exec(w, w.conn, "rollback prepared "+gid)
	case how == model.Commit:
		exec(w, conn, "commit")
	default:
		exec(w, conn, "rollback")
	}
}

func (w *walker) change(verb func(context.Context, outbox.Change) (outbox.ChangeReport, error), i int) {
	w.Helper()
	report, err := verb(w.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{w.ids[i]}}, Actor: "test", Reason: "the model says so"})
	if err != nil || report.Changed != 1 {
		w.Errorf("changed %d: %v", report.Changed, err)
	}
}

func (w *walker) beat(p int) {
	w.Helper()
	r := w.relays[p]
	_, err := r.store.Beat(w.Context(), r.info, w.naming[p])
	r.info.Beat++
	if err != nil && !errors.Is(err, outbox.ErrLeaseLost) {
		w.Error(err)
	}
}

// claim claims until something comes or there is no more. Each time the lane looks below its floor, and sometimes it sweeps.
func (w *walker) claim(p, limit int, heard bool) {
	w.Helper()
	r := w.relays[p]
	for {
		w.prod(laneOf(r))
		q := r.query(limit)
		batch, err := r.store.Claim(w.Context(), q)
		lost := errors.Is(err, outbox.ErrLeaseLost)
		if err != nil && !lost {
			w.Fatal(err)
		}
		var claims [][]int
		for _, c := range batch.Claims {
			claims = append(claims, w.numbersOf(p, c.Deliveries, heard))
		}
		if err := w.Adopt(&w.state, p, heard, lost, claims); err != nil {
			w.Errorf("a claim brought %v: %v", claims, err)
			return
		}
		if heard && len(claims) > 0 {
			r.known = append(r.known, q.Token)
		}
		if lost || len(claims) > 0 || !batch.More {
			return
		}
	}
}

// prod makes a lane look and sweep now, and not some time later.
func (w *walker) prod(l *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base.looked, l.keyed, l.busy = time.Time{}, true, w.random.IntN(2) == 0
	l.sweep.rested, l.sweep.started = time.Time{}, time.Time{}
	if w.random.IntN(2) == 0 {
		l.base.whole = time.Time{}
	}
}

func (w *walker) numbersOf(p int, ds []*outbox.Delivery, heard bool) (numbers []int) {
	w.Helper()
	for _, d := range ds {
		i, err := strconv.Atoi(string(d.Payload))
		if err != nil {
			w.Fatal(err)
		}
		if numbers = append(numbers, i); heard {
			w.held[p][i] = d
		}
	}
	return numbers
}

func (w *walker) outcomes(p int, kind outbox.OutcomeKind, messages ...int) (os []outbox.Outcome) {
	for _, i := range messages {
		d := w.held[p][i]
		o := outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: kind}
		if kind == outbox.Retried || kind == outbox.Died {
			o.Attempts, o.Class, o.Text, o.Delay = d.Attempt, "error", "planned", time.Hour
		}
		os = append(os, o)
	}
	return os
}

// settle settles one message, and what goes back with it, and compares whether that counts.
func (w *walker) settle(p, i int) {
	w.Helper()
	counts := w.state.Counts(&w.Config, p, i)
	var os []outbox.Outcome
	switch w.state.Outcome(p, i) {
	case "delivered":
		os = w.outcomes(p, outbox.Delivered, i)
	case "failed":
		os = append(w.outcomes(p, outbox.Retried, i), w.outcomes(p, outbox.Unlisted, w.state.Followers(&w.Config, p, i)...)...)
	case "doomed":
		os = append(w.outcomes(p, outbox.Died, i), w.outcomes(p, outbox.Unlisted, w.state.Followers(&w.Config, p, i)...)...)
		os[0].Holds = w.Park && w.Keys[i] != 0
	}
	if answer := w.send(p, os)[0]; (answer == outbox.SettledNow) != counts {
		w.Errorf("the result of message %d is %v, and it counts: %v", i+1, answer, counts)
	}
}

func (w *walker) settleAll(p int, messages []int) {
	w.Helper()
	for n, answer := range w.send(p, w.outcomes(p, outbox.Delivered, messages...)) {
		if counts := w.state.Counts(&w.Config, p, messages[n]); (answer == outbox.SettledNow) != counts {
			w.Errorf("the result of message %d is %v, and it counts: %v", messages[n]+1, answer, counts)
		}
	}
}

func (w *walker) send(p int, os []outbox.Outcome) []outbox.Settled {
	w.Helper()
	answers, err := w.store[p].Settle(w.Context(), os)
	if err != nil {
		w.Fatal(err)
	}
	return answers
}

// compare compares where every message is and what claims list.
func (w *walker) compare() {
	w.Helper()
	number := map[int64]int{}
	want := map[string]string{}
	for i, seq := range w.seqs {
		number[seq] = i + 1
		if table := w.state.Table(i); table != "" {
			want[strconv.Itoa(i+1)] = table
		}
	}
	got := map[string]string{}
	for _, table := range []string{"message", "waiting", "dead"} {
		for _, seq := range values[int64](w, w.conn, "select seq from outbox."+table) {
			got[strconv.Itoa(number[seq])] += table
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("messages are in %v, and in the model in %v", got, want)
	}
	var listed, listing []string
	for _, l := range w.state.Ledger() {
		listed = append(listed, fmt.Sprint(l.Messages, " ", l.Owned))
	}
	for _, text := range values[string](w, w.conn, "select array_to_string(seqs, ',') || ' ' || (relay is not null) from outbox.claim") {
		seqs, owned, _ := strings.Cut(text, " ")
		var numbers []string
		for s := range strings.SplitSeq(seqs, ",") {
			seq, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				w.Fatal(err)
			}
			numbers = append(numbers, strconv.Itoa(number[seq]))
		}
		slices.Sort(numbers)
		listing = append(listing, strings.Join(numbers, "")+" "+owned)
	}
	slices.Sort(listed)
	slices.Sort(listing)
	if !slices.Equal(listed, listing) {
		w.Errorf("claims list %v, and in the model %v", listing, listed)
	}
}

// drain ends everything: transactions, leases, waits. A new relay must deliver all that is left.
func (w *walker) drain() {
	w.Helper()
	if w.Failed() {
		return
	}
	for i, conn := range w.writers {
		open := conn != nil && conn.PgConn().TxStatus() != 'I'
		if open || conn == nil && value[bool](w, w.conn, "select exists (select from pg_prepared_xacts where gid = $1)", w.database+strconv.Itoa(i)) {
			w.end(i, model.Commit)
		}
	}
	exec(w, w.conn, "update outbox.relay set lease_until = clock_timestamp() - interval '1 second'")
	relay := newTestRelay(w, w.store[0], ">")
	const left = "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting) + (select count(*) from outbox.dead where holds)"
	for range 200 {
		if value[int](w, w.conn, left) == 0 {
			return
		}
		exec(w, w.conn, "update outbox.waiting set available_at = clock_timestamp()")
		if _, err := w.store[0].Redrive(w.Context(), outbox.Change{Filter: outbox.Filter{All: true}, Reason: "the end"}); err != nil {
			w.Fatal(err)
		}
		w.prod(laneOf(relay))
		relay.settle(w, outbox.Delivered, relay.claim(w, 10)...)
	}
	w.Errorf("%d messages are never delivered", value[int](w, w.conn, left))
}

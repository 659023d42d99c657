package sqlitestore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestLinesAtOnce: what is claimed is what asking for the line of each key by itself gives, whatever the keys have: scheduled,
// failed, parked and claimed messages, topics that nobody takes or takes without order.
func TestLinesAtOnce(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	plain, other, taken := 0, 0, 0
	for range rounds {
		db := openFile(t, migratedFile(t))
		s := newStore(t, db, nil)
		info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Hour, Lanes: []outbox.LaneInfo{{Destination: "d",
			Topics: outbox.TopicSet{{Pattern: "a", In: true}, {Pattern: "b", In: true}}, Unordered: outbox.TopicSet{{Pattern: "b", In: true}}}}}
		if _, err := s.Beat(t.Context(), info, nil); err != nil {
			t.Fatal(err)
		}
		held := newTestRelay(t, s, time.Hour)
		messages := func(n int) {
			for range n {
				m := outbox.Message{Topic: []string{"a", "a", "a", "b", "c"}[random.IntN(5)], Key: fmt.Sprint("k", random.IntN(12))}
				if random.IntN(8) == 0 {
					m.Delay = time.Minute
				}
				publish(t, s, m)
			}
		}
		messages(random.IntN(15))
		for _, d := range held.claim(t, random.IntN(6)) {
			switch random.IntN(4) {
			case 0:
				held.settle(t, outbox.Retried, d)
			case 1:
				answers, err := s.Settle(t.Context(), []outbox.Outcome{{Claim: d.Claim, Seq: d.Seq, Kind: outbox.Died, Attempts: 1, Holds: random.IntN(2) == 0}})
				if err != nil || answers[0] != outbox.SettledNow {
					t.Fatal(answers, err)
				}
			case 2:
				held.settle(t, outbox.GivenBack, d)
			}
		}
		messages(random.IntN(30))
		if random.IntN(2) == 0 {
			step(t, db, 2*time.Minute)
		}
		q := outbox.ClaimQuery{Relay: info.ID, Destination: "d", Token: outbox.NewID(), Limit: 1 + random.IntN(40), Bytes: 1 << 20}
		var got, want []int64
		err := s.read(t.Context(), func(t *tx) error {
			for _, single := range []bool{false, true} {
				p := &pick{t: t, lane: &lane{change: -1}, query: q, visited: map[string]bool{}, taken: map[int64]bool{}, single: single}
				var err error
				if p.topics, err = laneTopics(t, &q); err != nil {
					return err
				}
				if err := p.fill(); err != nil {
					return err
				}
				var seqs []int64
				for _, c := range p.rows {
					seqs = append(seqs, c.seq)
				}
				if single {
					want = seqs
					continue
				}
				got = seqs
				for _, kind := range p.lines.kinds {
					if kind == keyPlain {
						plain++
					} else {
						other++
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken += len(got); !slices.Equal(got, want) {
			t.Fatalf("at once %v are taken, one by one %v", got, want)
		}
	}
	if plain < rounds || other < rounds/4 || taken < rounds {
		t.Errorf("the test did not do what it was meant to: %d plain keys, %d others, %d taken", plain, other, taken)
	}
}

// TestSuspectHeadKeepsLapsedFollower: a claim that takes a suspect takes nothing of its key that lapsed less often.
func TestSuspectHeadKeepsLapsedFollower(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	publish(t, s, outbox.Message{Topic: "a", Key: "k", Payload: []byte("head")}, outbox.Message{Topic: "a", Key: "k", Payload: []byte("follower")})
	execSQL(t, db, `insert into outbox_claim (id, token, relay, beat, destination, lapses, claimed_at) values (1, 'x', null, 0, 'd', 2, 0), (2, 'y', null, 0, 'd', 1, 0);
		insert into outbox_listed (seq, claim, key) values (1, 1, 'k'), (2, 2, 'k')`)
	if ds := newTestRelay(t, s, lease).claim(t, 2); !slices.Equal(payloads(ds), []string{"head"}) {
		t.Errorf("claimed %q", payloads(ds))
	}
}

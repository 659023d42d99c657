package outboxtest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/internal/schedule"
)

// undelivered stands for what is left when a schedule's patience is over.
const undelivered history.ViolationKind = "undelivered"

// brokenBy names, for faults of wrong stores, what a random schedule must find.
var brokenBy = map[string][]history.ViolationKind{
	"messages that others hold are claimed":      {history.Concurrent},
	"a claim holds no keys":                      {history.Concurrent, history.Overtaken},
	"what cannot be taken does not hold its key": {history.Overtaken},
	"a retried message does not hold its key":    {history.Overtaken},
	"a claim is in reverse":                      {history.Overtaken},
	"leases never lapse":                         {undelivered},
	"a lapse counts as an attempt":               {history.Spent},
	"giving back counts as an attempt":           {history.Spent},
	"uncommitted messages are seen":              {history.Early, history.Phantom},
	"a rolled back transaction is committed":     {history.Phantom},
	"unlisted followers are forgotten":           {history.Lost},
	"dropped messages are kept":                  {history.Duplicate},
	"a parked message does not hold its key":     {history.Overtaken},
	"redriven messages do not hold their keys":   {history.Overtaken},
	"redriving keeps the attempts":               {history.Spent},
	"a discard takes what a live relay holds":    {history.Revived},
	"a paused topic holds no keys":               {history.Overtaken},
}

// TestSchedulesFindWrongStores: random schedules with the history checker find stores that break a promise, without
// having been written for their faults.
func TestSchedulesFindWrongStores(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many schedules")
	}
	const most = 100 // plans
	planted := 0
	for _, w := range slices.Concat(wrongRules(), wrongStores(), wrongParks(), wrongTransactions(), wrongOperators()) {
		want := brokenBy[w.fault]
		if want == nil {
			continue
		}
		planted++
		t.Run(w.fault, func(t *testing.T) {
			t.Parallel()
			for seed := range most {
				found := playWrong(t, w, schedule.Plans(schedule.Limits{Steps: 16, Waits: true}).Example(seed))
				if slices.ContainsFunc(want, func(kind history.ViolationKind) bool { return slices.Contains(found, kind) }) {
					t.Logf("found by plan %d: %v", seed, found)
					return
				}
			}
			t.Errorf("%d plans have found none of %v", most, want)
		})
	}
	if planted != len(brokenBy) {
		t.Errorf("%d of %d faults are those of a wrong store", planted, len(brokenBy))
	}
}

// playWrong plays a plan on a wrong store and returns what is found.
func playWrong(t *testing.T, w wrong, plan schedule.Plan) (found []history.ViolationKind) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(soundRules())
		w.plant(h)
		report, err := schedule.Play(t.Context(), played{h}, plan)
		for _, v := range report.Violations {
			found = append(found, v.Kind)
		}
		if err != nil {
			found = append(found, undelivered)
		}
	})
	return found
}

// played shows a harness to package schedule.
type played struct{ *harness }

func (p played) Open(context.Context) (outbox.Store, func(), error) {
	return p.wrapStore(p.store.Peer()), func() {}, nil
}

func (p played) Begin(ctx context.Context) (schedule.Tx, error) { return p.harness.Begin(ctx) }

func (p played) Operator() outbox.Operator { return p.wrapOperator(p.store) }

func (p played) Left(context.Context) (int, error) {
	c := p.store.Counts()
	return c.Ready + c.Waiting, nil
}

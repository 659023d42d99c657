package history

import (
	"strings"
	"testing"
)

func TestCheckAcceptsWhatMayHappen(t *testing.T) {
	for _, p := range []planted{
		{name: "delivered once", lines: once},
		{name: "nothing delivered yet", options: Options{Undrained: true}, lines: `
p publish m1
p commit m1`},
		{name: "the publisher died between: not there", lines: `
p publish m1
p killed
p died`},
		{name: "the publisher died between: there", lines: `
p publish m1
p killed
A begin m1
A accept m1`},
		{name: "delivered before the publisher learned of its commit", lines: `
p publish m1
A begin m1
A accept m1
p commit m1`},
		{name: "settled after a takeover that has ended it, as the answer to a repetition", lines: `
p publish m1
p commit m1
A lease until=55
B lease until=900
A begin m1
A accept m1
B begin m1
B accept m1
B settled m1 outcome=delivered
A settled m1 outcome=delivered since=65 repeated=1`},
		{name: "rolled back, published again", lines: `
p publish m1
p rollback m1
p publish m1
p commit m1
A begin m1
A accept m1`},
		{name: "failed and retried, its follower waits", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=retried
A settled m1 outcome=retried
B begin m1
B accept m1
B begin m2
B accept m2`},
		{name: "dead: its followers go on", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
B begin m2
A settled m1 outcome=died
B accept m2`},
		{name: "killed after the settlement as dead was sent", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
A killed
B begin m2
B accept m2`},
		{name: "expired without a delivery", lines: `
p publish m1
p commit m1
A settling m1 outcome=expired
A settled m1 outcome=expired`},
		{name: "discarded", lines: `
p publish m1
p commit m1
h discard m1`},
		{name: "redriven: its later followers wait, earlier ones have gone", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
A begin m2
h redrive m1
A accept m2
A claim
A begin m1
A accept m1`},
		{name: "a claim from before the redrive", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A fail m1
A settling m1 outcome=died
A settled m1 outcome=died
A claim
h redrive m1 since=85
A begin m2
A accept m2
B begin m1
B accept m1`},
		{name: "a lower seq commits while a higher one is in flight", lines: `
p publish m2
p publish m1
p commit m2
A claim since=35
A begin m2
p commit m1
A accept m2
A begin m1
A accept m1`},
		{name: "racing transactions, no claim logged", lines: `
p publish m2
p publish m1
p commit m1
p commit m2
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "a scheduled message comes due late", lines: `
p publish m1 deferred=1
p commit m1
p publish m2
p commit m2
A begin m2
A accept m2
A begin m1
A accept m1`},
		{name: "another destination, another key and no key go on", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
p publish m3 key=other
p commit m3 key=other
p publish u4
p commit u4
A begin m1
A begin m2 dest=e
A begin m3 key=other
A begin u4
A accept m1
A accept m2 dest=e
A accept m3 key=other
A accept u4`},
		{name: "an unordered topic", options: Options{Order: all(None)}, lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m2
B begin m1
A accept m2
B accept m1`},
		{name: "killed in flight", lines: `
p publish m1
p commit m1
A begin m1
A killed
B begin m1
B accept m1`},
		{name: "killed between acceptance and settlement, with a follower", lines: `
p publish m1
p commit m1
p publish m2
p commit m2
A begin m1
A accept m1
A begin m2
A killed
A accept m2
A died
B begin m1
B accept m1
B begin m2
B accept m2`},
		{name: "the lease is lost, as the relay learns afterwards", lines: `
p publish m1
p commit m1
A begin m1
B begin m1
B accept m1
A lost
A accept m1
A fenced m1 outcome=delivered`},
		{name: "suspended past the lease as logged, refused", lines: `
p publish m1
p commit m1
A lease until=55
B lease until=900
A begin m1
A suspended
B begin m1
B accept m1
B settled m1 outcome=delivered
A continued
A accept m1
A fenced m1 outcome=delivered`},
		{name: "suspended before it began, begins all the same", lines: `
p publish m1
p commit m1
A lease until=45
B lease until=900
A suspended
B begin m1
B accept m1
B settled m1 outcome=delivered
A continued
A begin m1
A accept m1
A fenced m1 outcome=delivered`},
		{name: "lapsed, nobody took over: the late settlement succeeds", lines: `
p publish m1
p commit m1
A lease until=35
A begin m1
A accept m1
A settled m1 outcome=delivered`},
		{name: "a retry is settled, and claimed before its answer is logged", lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=retried
B begin m1
A settled m1 outcome=retried
B accept m1`},
		{name: "a retry whose first answer was lost is settled again", lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=retried
B begin m1
A settling m1 outcome=retried
A settled m1 outcome=retried since=48
B accept m1`},
		{name: "a retry whose first answer was lost has ended its claim", lines: `
p publish m1
p commit m1
A begin m1
A fail m1
A settling m1 outcome=retried
A settling m1 outcome=retried
A fenced m1 outcome=retried
B begin m1
B accept m1`},
		{name: "the database crashed: a claim is forgotten", lines: `
p publish m1
p commit m1
A begin m1
h disturbed
B begin m1
B accept m1
A accept m1
A fenced m1 outcome=delivered`},
		{name: "the database crashed: an asynchronous settlement is forgotten", options: Options{SettleLoss: 20},
			lines: once + `
h disturbed
B begin m1
B accept m1`},
		{name: "the lease is extended", lines: `
A lease until=35
p publish m1
p commit m1
A lease until=90
A begin m1
A accept m1
A settled m1 outcome=delivered
A stop
A exited`},
	} {
		t.Run(p.name, p.run)
	}
}

func TestCheckCounts(t *testing.T) {
	report := Check(plant(t, once+`
p publish m2
p rollback m2
p publish m3
p publish m4
p commit m4
A begin m4
A fail m4
A begin m4
A accept m4
A killed
A died
B begin m4
B accept m4
B lost
B fenced m4 outcome=delivered`), Options{})
	want := Counts{Committed: 2, RolledBack: 1, Unknown: 1, Deliveries: 4, Accepted: 3, Failed: 1, Duplicates: 1, OutsideLease: 1, Fenced: 1, LeasesLost: 1, Deaths: 1}
	if report.Err() != nil || report.Counts != want {
		t.Fatalf("counts %+v, want %+v; %v", report.Counts, want, report.Err())
	}
}

func TestReportShowsProof(t *testing.T) {
	report := Check(plant(t, "p publish m1\np commit m1"), Options{})
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "message m1 (seq 1, key \"k\") was committed and never accepted") ||
		!strings.Contains(err.Error(), `"kind":"publishing"`) {
		t.Fatalf("error: %v", err)
	}
	var many Report
	for range 25 {
		many.Violations = append(many.Violations, report.Violations...)
	}
	if err := many.Err(); !strings.Contains(err.Error(), "and 5 more") {
		t.Fatalf("error: %v", err)
	}
}

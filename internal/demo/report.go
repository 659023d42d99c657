package demo

import (
	"fmt"
	"strings"
	"time"
)

// Summary is the result as scripts read it; Delivered counts distinct ids.
type Summary struct {
	Committed       int     `json:"committed"`
	RolledBack      int     `json:"rolled_back"`
	Delivered       int     `json:"delivered"`
	Lost            int     `json:"lost"`
	Phantom         int     `json:"phantom"`
	Duplicates      int     `json:"duplicates"`
	KilledInFlight  int64   `json:"killed_with_in_flight"`
	OrderViolations int     `json:"order_violations"`
	Seconds         float64 `json:"seconds"`
}

// Summary is the result in one line.
func (r *Result) Summary() Summary {
	return Summary{r.Committed, r.RolledBack, r.Delivered, r.Lost, r.Phantom, r.Duplicates, r.KilledInFlight,
		r.OrderViolations, r.Took.Round(time.Millisecond).Seconds()}
}

const nextSteps = `Next:
  outbox init > outbox.yaml
  outbox run --database-url postgres://localhost/shop --to nats://localhost:4222 --stream ORDERS --create --subjects 'orders.>'
  outbox publish --database-url postgres://localhost/shop --topic orders.placed --key customer-07 --payload '{"order":7}'
`

// Report is the result for people.
func (r *Result) Report() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("What was done")
	line("  An application committed %d orders in %s, each with its message in the same transaction.", r.Committed, r.Database)
	line("  %d other transactions were rolled back after they had inserted their message.", r.RolledBack)
	line("  A relay delivered to NATS JetStream until it was killed (SIGKILL) with %d messages in flight.", r.KilledInFlight)
	line("  Another one had them %.1f s later, when the lease of the first was over, and delivered the rest.", r.Takeover.Seconds())
	line("")
	line("What the stream says")
	for _, row := range []struct {
		name  string
		n     int
		means string
	}{
		{"delivered", r.Delivered, fmt.Sprintf("of %d committed", r.Committed)},
		{"lost", r.Lost, "committed, and not in the stream"},
		{"phantom", r.Phantom, "in the stream, and rolled back, changed or never published"},
		{"out of order", r.OrderViolations, fmt.Sprintf("within one of %d keys", r.Keys)},
		{"duplicates", r.Duplicates, "delivery is at least once; within its window JetStream drops what is sent again"},
	} {
		line("  %-13s %7d   %s", row.name, row.n, row.means)
	}
	for _, f := range r.Findings {
		line("  ! %s", f)
	}
	if r.Dead > 0 {
		line("  ! %d messages are dead: the relays gave them up", r.Dead)
	}
	line("")
	line("%s in %.1f s.%s\n", r.judgement(), r.Took.Seconds(), r.remains())
	b.WriteString(r.nextSteps())
	return b.String()
}

// nextSteps are with the kind of database that was shown.
func (r *Result) nextSteps() string {
	if r.Database == sqliteKind {
		return strings.ReplaceAll(nextSteps, "postgres://localhost/shop", PrivateSQLite+"shop.db")
	}
	return nextSteps
}

func (r *Result) judgement() string {
	if r.OK() {
		return "Nothing lost, nothing invented, every key in order,"
	}
	return "FAILED"
}

func (r *Result) remains() string {
	if r.Private {
		return " The private " + r.Database + " and NATS are gone again."
	}
	return " What the demo made in existing services is removed again."
}

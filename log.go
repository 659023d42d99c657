package outbox

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// inWords writes a duration with its unit, also where JSON would make a number of nanoseconds of it.
func inWords(key string, d time.Duration) slog.Attr {
	return slog.String(key, d.Round(time.Millisecond).String())
}

func messageAttrs(l *lane, d *Delivery) []any {
	return []any{
		slog.String("id", d.ID.String()), slog.String("topic", d.Topic),
		slog.String("destination", l.name), slog.Int("attempt", d.Attempt),
	}
}

// logAttempt says how an attempt ended: at debug when nothing is to be done about it.
func (r *running) logAttempt(l *lane, d *Delivery, o Outcome) {
	switch {
	case o.Kind == Retried && o.Class == ClassCrash:
		r.log.Error("message crashed its relay, will be retried alone", append(messageAttrs(l, d),
			slog.String("class", o.Class), inWords("retry_in", o.Delay))...)
	case o.Kind == Retried && o.Attempts == d.Attempt:
		r.log.Warn("delivery failed, will be retried", append(messageAttrs(l, d),
			slog.String("class", o.Class), slog.String("error", o.Text), inWords("retry_in", o.Delay))...)
	case o.Kind == Died:
		r.logDead(l, d, o)
	default:
		if r.log.Enabled(r.base, slog.LevelDebug) {
			r.log.Debug("delivery ended", append(messageAttrs(l, d), slog.String("outcome", o.Kind.String()))...)
		}
	}
}

// logSuspects names a message before it is delivered that may end this process: then the line is the last one.
func (r *running) logSuspects(l *lane, claims []Claim) {
	for _, c := range claims {
		for _, d := range c.Deliveries {
			if c.Suspect() && !c.Crashed() {
				r.log.Warn("relays have died with this message, it is delivered alone", append(messageAttrs(l, d),
					slog.Int("lapses", c.Lapses))...)
			}
		}
	}
}

// logUnsent says why a message was not delivered although its turn had come.
func (r *running) logUnsent(l *lane, d *Delivery, o Outcome) {
	if o.Kind == Died {
		r.logDead(l, d, o)
		return
	}
	r.log.Warn("message cannot be delivered, will be retried", append(messageAttrs(l, d),
		slog.String("class", o.Class), slog.String("error", o.Text), inWords("retry_in", o.Delay))...)
}

func (r *running) logDead(l *lane, d *Delivery, o Outcome) {
	r.log.Error("message is dead", append(messageAttrs(l, d),
		slog.String("class", o.Class), slog.String("error", o.Text), slog.Bool("holds_key", o.Holds))...)
}

// fenced counts and tells that a result came too late.
func (r *running) fenced(l *lane, topic string, o *Outcome) {
	r.counters.fenced.Add(1)
	r.event(Event{Kind: EventFenced, Destination: l.name, Topic: topic, Outcome: *o})
}

// refusals are the results of one call of the store that came too late, by destination. All of a claim are refused
// together: a line for each would be thousands at once.
type refusals map[*lane]*refusal

type refusal struct {
	messages int
	first    *Outcome
}

func (rs refusals) add(l *lane, o *Outcome) {
	if rs[l] == nil {
		rs[l] = &refusal{first: o}
	}
	rs[l].messages++
}

func (rs refusals) log(log *slog.Logger) {
	for l, refused := range rs {
		o := refused.first
		log.Warn("results refused, another relay has taken the messages over", "destination", l.name, "messages", refused.messages,
			"seq", o.Seq, "claim", o.Claim.ID, "outcome", o.Kind.String())
	}
}

// breakerChanged tells that a destination, or the handler of a topic, became unavailable or available.
func (l *lane) breakerChanged(c stateChange, reason string, misconfigured bool) {
	attrs := []any{"destination", l.name}
	if c.scope != "" {
		attrs = append(attrs, "handler", c.scope)
	}
	if c.opened {
		l.r.log.Info("destination is available again", attrs...)
		l.faultEnded(c.scope)
	}
	if !c.closed {
		return
	}
	fault := faultOf(c.scope, reason, misconfigured)
	if l.faults.set(c.scope, fault) {
		l.faultChanged()
	}
	if other := l.faults.log(fault); c.first || c.checked && other {
		l.r.log.Warn(faultMessage(fault, c.first), append(attrs, "error", reason, inWords("probe_in", c.rest))...)
	}
	l.r.event(Event{Kind: EventClosed, Destination: l.name, Topic: c.scope, Took: c.rest})
}

func faultMessage(f Fault, first bool) string {
	switch {
	case f.Misconfigured:
		return "destination is misconfigured"
	case first:
		return "destination is unavailable"
	}
	return "destination is unavailable for another reason"
}

// faultEnded tells that the destination works, or that a check finds nothing wrong with it.
func (l *lane) faultEnded(scope string) {
	if l.faults.clear(scope) {
		l.faultChanged()
	}
}

// faultChanged tells hooks, and by a heartbeat at once the store.
func (l *lane) faultChanged() {
	l.r.event(Event{Kind: EventFault, Destination: l.name, Fault: l.faults.worst()})
	l.r.tellState()
}

// tellState makes a heartbeat tell the store at once.
func (r *running) tellState() {
	if s := r.session.Load(); s != nil {
		s.beatSoon()
	}
}

// logHolders says at start which relays hold messages, and until when.
func (r *running) logHolders(holders []Holder, now time.Time) {
	for _, h := range holders {
		r.log.Info("messages are held by another relay", "messages", h.Messages, "host", h.Host, "pid", h.PID,
			inWords("last_seen", h.Seen), "return_at", now.Add(h.LeaseLeft).UTC().Truncate(time.Second))
	}
}

func (r *running) logSummary(msg string) {
	now := r.counters.counts()
	n := now.since(r.summarised)
	r.summarised = now
	attrs := []any{"delivered", n.Delivered, "retried", n.Retried, "dead", n.Dead, "dropped", n.Dropped,
		"expired", n.Expired, "given_back", n.GivenBack, "fenced", n.Fenced}
	// Of all relays one knows, and not what is long ago.
	if s := r.lastSample.Load(); s != nil && time.Since(s.At) < 2*summaryInterval {
		attrs = append(attrs, "behind", s.Ready.Messages, inWords("oldest", s.OldestEligible))
	}
	r.log.Info(msg, attrs...)
}

// troubles remembers which calls of the store fail, to log one line per change, and of those that fail now and then one a
// minute.
type troubles struct {
	mu sync.Mutex
	of map[string]*trouble
}

// trouble is a call that fails or has failed.
type trouble struct {
	since  time.Time // zero: it works again
	logged time.Time // the last line
	told   bool      // the line's end is still to come
}

// troubleEvery spaces the lines about a call that works and fails by turns.
const troubleEvery = time.Minute

// fail notes a failure and reports whether it is worth a line.
func (t *troubles) fail(call string, now time.Time) (log bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.of[call]
	if of == nil {
		of = &trouble{}
		t.of[call] = of
	}
	if of.since.IsZero() {
		of.since = now
	}
	if of.told || now.Sub(of.logged) < troubleEvery {
		return false
	}
	of.told, of.logged = true, now
	return true
}

// work notes a success, and reports whether it is worth a line, and for how long the call had failed.
func (t *troubles) work(call string, now time.Time) (log bool, failed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.of[call]
	if of == nil || of.since.IsZero() {
		return false, 0
	}
	log, failed = of.told, now.Sub(of.since)
	of.since, of.told = time.Time{}, false
	return log, failed
}

// storeFailed tells that a call of the store failed and will be repeated.
func (r *running) storeFailed(call string, err error) {
	r.event(Event{Kind: EventStoreFailed, Err: err})
	if r.troubles.fail(call, time.Now()) {
		r.log.Warn("store failed, will be asked again", "call", call, "error", err)
	}
}

// storeWorks tells that a call of the store succeeded.
func (r *running) storeWorks(call string) {
	if log, failed := r.troubles.work(call, time.Now()); log {
		r.log.Info("store works again", "call", call, inWords("failed_for", failed))
	}
}

// lasting are the calls that have failed for so long that the relay does not work.
func (t *troubles) lasting(now time.Time) (problems []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, call := range slices.Sorted(maps.Keys(t.of)) {
		since := t.of[call].since
		if took := now.Sub(since); !since.IsZero() && took > troubleLimit && call != "sample" && call != "maintain" {
			problems = append(problems, fmt.Sprintf("the store fails (%s) for %s", call, inSeconds(took)))
		}
	}
	return problems
}

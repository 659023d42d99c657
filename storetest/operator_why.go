package storetest

import (
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

func keysTell(e *env) {
	o, r := e.operator(), e.relay()
	id := e.publish(msg("a", "k", "1"), msg("a", "k", "2"), msg("a", "k", "3"))[0].ID
	ds := r.takes("1", "2", "3")
	e.publish(msg("a", "l", "4"))
	r.settled(append(outcomes(outbox.Unlisted, ds[1:]...), retried(ds[0], time.Hour))...)
	keys, err := o.Keys(e.ctx, 0)
	e.must(err)
	if len(keys.Holds) != 1 || keys.More || len(keys.Pauses) != 0 {
		e.Fatalf("keys %+v", keys)
	}
	h := keys.Holds[0]
	if h.Key != "k" || h.ID != id || h.State != outbox.HoldRetrying || h.Attempts != 1 || h.Class != "error" || h.Text != "it failed" ||
		h.NextTry <= 59*time.Minute || h.NextTry > time.Hour || h.Behind != (outbox.Depth{Messages: 2}) || h.Topic != "a" {
		e.Errorf("hold %+v", h)
	}
	if h.Release() != "outbox retry --id "+id.String() {
		e.Errorf("release by %q", h.Release())
	}
	o.pause(outbox.Pause{Topic: "a", Reason: "test", Actor: "me"})
	keys, err = o.Keys(e.ctx, 1)
	e.must(err)
	if len(keys.Holds) != 1 || !keys.More || len(keys.Pauses) != 1 || keys.Pauses[0].Topic != "a" || keys.Pauses[0].Reason != "test" || keys.Pauses[0].Actor != "me" {
		e.Errorf("keys %+v", keys)
	}
}

func whyLeads(e *env) {
	o, r := e.operator(), e.relay()
	ids := e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	w, err := o.Why(e.ctx, outbox.WhyQuery{ID: ids[0].ID})
	e.must(err)
	if w.Message == nil || w.Message.Holder == nil || !w.Message.Holder.Live || w.Message.Holder.Destination != defaultLane || w.Head != nil {
		e.Fatalf("in flight: %+v", w.Message)
	}
	r.settled(outcome(outbox.Unlisted, ds[1]), retried(ds[0], time.Hour))
	w, err = o.Why(e.ctx, outbox.WhyQuery{ID: ids[1].ID})
	e.must(err)
	if w.Message == nil || w.Head == nil || w.Message.ID != ids[1].ID || w.Head.ID != ids[0].ID || w.Message.State != "ready" ||
		w.Head.State != "waiting" || w.Head.Attempts != 1 || w.Head.Text != "it failed" || w.Head.Due <= 59*time.Minute || !w.Head.Holds {
		e.Fatalf("behind its head: %+v, head %+v", w.Message, w.Head)
	}
	e.leads(w, "outbox retry --id "+ids[0].ID.String())
	w, err = o.Why(e.ctx, outbox.WhyQuery{Key: "k"})
	e.must(err)
	if w.Message == nil || w.Message.ID != ids[0].ID || w.Head != nil || w.Younger != (outbox.Depth{Messages: 1}) {
		e.Fatalf("the key: %+v", w)
	}
	o.retry(byKey("k"), 1)
	r.settled(outcome(outbox.Died, r.take(1, limit(1))[0]))
	w, err = o.Why(e.ctx, outbox.WhyQuery{ID: ids[0].ID})
	e.must(err)
	e.leads(w, "outbox redrive --id "+ids[0].ID.String())
}

// leads demands that the chain of reasons ends with a command.
func (e *env) leads(w outbox.Why, command string) {
	e.Helper()
	reasons := w.Reasons()
	e.equal("command", reasons[len(reasons)-1].Command, command)
}

func whyOutage(e *env) {
	o := e.operator()
	id := e.publish(msg("a", "", "1"))[0].ID
	one, other := e.relay(lane(defaultLane, ">")), e.relay(lane(defaultLane, ">"))
	ask := func(command string, faulty int, fault *outbox.Fault) {
		e.Helper()
		w, err := o.Why(e.ctx, outbox.WhyQuery{ID: id})
		e.must(err)
		e.leads(w, command)
		e.equal("destinations", w.Destinations, []outbox.DestinationStatus{{Name: defaultLane, Relays: 2, Faulty: faulty, Fault: fault}})
	}
	see := func(r *relay, fault *outbox.Fault) {
		e.Helper()
		r.info.Lanes[0].Fault = fault
		r.beat()
	}
	away, missing := &outbox.Fault{Reason: "it is away"}, &outbox.Fault{Misconfigured: true, Reason: "no exchange; make one"}
	ask("outbox status", 0, nil)
	see(one, missing)
	ask("outbox status", 1, missing)
	see(other, away)
	ask("outbox check", 2, missing)
	see(one, away)
	ask("outbox status", 2, away)
	w, err := o.Why(e.ctx, outbox.WhyQuery{ID: id})
	e.must(err)
	if text := w.Reasons()[1].Text; !strings.Contains(text, "is unavailable") || !strings.Contains(text, away.Reason) {
		e.Errorf("the reason is %q", text)
	}
	see(other, nil)
	ask("outbox status", 1, away)
	see(one, nil)
	ask("outbox status", 0, nil)
}

func whyOutageOfRetry(e *env) {
	o, r := e.operator(), e.relay()
	id := e.publish(msg("a", "k", "1"))[0].ID
	d := r.takes("1")[0]
	r.info.Lanes[0].Fault = &outbox.Fault{Reason: "it is away"}
	r.beat()
	tells := func(parts ...string) {
		e.Helper()
		w, err := o.Why(e.ctx, outbox.WhyQuery{ID: id})
		e.must(err)
		var text strings.Builder
		for _, reason := range w.Reasons() {
			text.WriteString(reason.Text + "; " + reason.Command + "\n")
		}
		for _, part := range append(parts, "is unavailable", "it is away") {
			if !strings.Contains(text.String(), part) {
				e.Errorf("nothing tells %q: %s", part, text.String())
			}
		}
	}
	tells("is held by relay", "its delivery is under way")
	r.settled(retried(d, time.Hour))
	tells("last error (error): it failed", "it waits for its time; outbox retry --id "+id.String())
	o.retry(byKey("k"), 1)
	tells("last error (error): it failed", "is due")
}

func whyElse(e *env) {
	o := e.operator()
	id := e.publish(msg("a", "", "1"))[0].ID
	ask := func(command string) {
		e.Helper()
		w, err := o.Why(e.ctx, outbox.WhyQuery{ID: id})
		e.must(err)
		e.leads(w, command)
	}
	ask("outbox run")
	r := e.relay(lane(defaultLane, "b"))
	ask("outbox relays")
	e.relay(lane(defaultLane, "a"))
	ask("outbox status")
	o.pause(outbox.Pause{Destination: defaultLane})
	ask("outbox resume --destination " + defaultLane)
	o.pause(outbox.Pause{Topic: "*"})
	ask("outbox resume --destination " + defaultLane)
	r.takesNothing()
	w, err := o.Why(e.ctx, outbox.WhyQuery{ID: outbox.NewID()})
	e.must(err)
	e.equal("message", w.Message, (*outbox.MessageState)(nil))
	if _, err := o.Why(e.ctx, outbox.WhyQuery{}); err == nil {
		e.Error("a question about nothing")
	}
}

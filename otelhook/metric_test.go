package otelhook_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/otelhook"
	"github.com/outboxrelay/outbox/outboxtest"
)

// values are all series by name and attributes; of histograms it is the count.
func (r *rig) values(t *testing.T) map[string]float64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	put := func(name string, attrs attribute.Set, v float64) {
		var words []string
		for _, kv := range attrs.ToSlice() {
			words = append(words, string(kv.Key)+"="+kv.Value.AsString())
		}
		values[name+"{"+strings.Join(words, ",")+"}"] = v
	}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return values
}

func (r *rig) want(t *testing.T, want map[string]float64) {
	t.Helper()
	got := r.values(t)
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (there: %v), want %v", name, g, ok, v)
		}
	}
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			t.Log(name, got[name])
		}
	}
}

// TestCounts: each end of a message is counted once, with its topic, and with metrics on a success is a success.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		r.publish(t, t.Context(), outbox.Message{Topic: "ok"}, outbox.Message{Topic: "flaky"}, outbox.Message{Topic: "poison"},
			outbox.Message{Topic: "unwanted"}, outbox.Message{Topic: "late", TTL: time.Nanosecond}, outbox.Message{Topic: "ok", DedupKey: "d"})
		r.publish(t, t.Context(), outbox.Message{Topic: "ok", DedupKey: "d"})
		time.Sleep(time.Millisecond)
		failed := false
		r.deliver(t, outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
			switch d.Topic {
			case "flaky":
				if !failed {
					failed = true
					return errors.New("once")
				}
			case "poison":
				return outbox.Permanent(errors.New("never"))
			case "unwanted":
				return outbox.Drop("not wanted")
			}
			return nil
		}), outbox.Config{})
		if got := r.Counts(); got.Delivered != 3 || got.Dead != 1 || got.Waiting+got.Ready != 0 {
			t.Errorf("the outbox counts %+v", got)
		}
		to := func(topic string) string { return "{destination=default,topic=" + topic + "}" }
		r.want(t, map[string]float64{
			"outbox.published{topic=ok}": 2, "outbox.published{topic=flaky}": 1, "outbox.published{topic=_other}": 0,
			"outbox.delivered" + to("ok"): 2, "outbox.delivered" + to("flaky"): 1, "outbox.delivered" + to("_other"): 0,
			"outbox.retried" + to("flaky"): 1, "outbox.dead_lettered" + to("poison"): 1, "outbox.dropped" + to("unwanted"): 1,
			"outbox.expired" + to("late"): 1, "outbox.handler.duration" + to("flaky"): 2, "outbox.handler.duration" + to("ok"): 2,
			"outbox.commit_to_ack{destination=default}": 3, "outbox.breaker.open{destination=default}": 0, "outbox.lease_lost{}": 0,
		})
		for name, v := range r.values(t) {
			if strings.HasPrefix(name, "outbox.retried") && name != "outbox.retried"+to("flaky") && v != 0 ||
				strings.HasPrefix(name, "outbox.dead_lettered") && name != "outbox.dead_lettered"+to("poison") && v != 0 {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}

// TestZeroAtStart: before anything happens the counters of all destinations and named topics are there.
func TestZeroAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		mux := outbox.NewMux()
		mux.Handle("orders.created", func(context.Context, *outbox.Delivery) error { return nil })
		mux.Handle("audit.>", func(context.Context, *outbox.Delivery) error { return nil })
		r.deliver(t, mux, outbox.Config{})
		want := map[string]float64{"outbox.published{topic=_other}": 0, "outbox.store.failures{}": 0, "outbox.lease_lost{}": 0,
			"outbox.breaker.opened{destination=handlers}": 0, "outbox.stuck{destination=handlers}": 0,
			"outbox.breaker.open{destination=handlers}": 0, "outbox.breaker.misconfigured{destination=handlers}": 0,
			"outbox.streaming{}": 0, "outbox.stream.failing{}": 0, "outbox.stream.lag{}": 0, "outbox.stream.buffered{}": 0}
		for _, name := range []string{"delivered", "retried", "dead_lettered", "dropped", "expired", "given_back", "fenced"} {
			for _, topic := range []string{"orders.created", "_other"} {
				want["outbox."+name+"{destination=handlers,topic="+topic+"}"] = 0
			}
		}
		r.want(t, want)
	})
}

// TestTopicsAreBounded: 200 topics have series, the others share one.
func TestTopicsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		for i := range 250 {
			r.publish(t, t.Context(), outbox.Message{Topic: fmt.Sprintf("topic-%d", i)})
		}
		r.deliver(t, &outboxtest.Recorder{}, outbox.Config{})
		topics := map[string]bool{}
		for name := range r.values(t) {
			if _, topic, ok := strings.Cut(name, "topic="); ok {
				topics[strings.TrimSuffix(topic, "}")] = true
			}
		}
		if len(topics) != 201 {
			t.Errorf("%d values of topic", len(topics))
		}
		r.want(t, map[string]float64{"outbox.published{topic=_other}": 50, "outbox.delivered{destination=default,topic=_other}": 50})
	})
}

// sampledStore is an outbox whose samples are planned.
type sampledStore struct {
	*outboxtest.Store
	sample func() (*outbox.Sample, error)
}

func (s *sampledStore) Sample(context.Context, outbox.ID) (*outbox.Sample, error) { return s.sample() }

// TestGaugesEndWhenStale: what was seen is told as long as it is fresh, and not at all by a relay that does not look.
func TestGaugesEndWhenStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		type plan struct {
			sample *outbox.Sample
			err    error
		}
		var next atomic.Pointer[plan]
		first := &outbox.Sample{OldestEligible: 90 * time.Second, HeldKeys: outbox.Depth{Messages: 3}, Relays: 2, SlotRetained: 4096, SlotUnconfirmed: 512}
		first.Ready.Messages, first.Scheduled.Messages, first.Entered = 7, 4, 1000
		next.Store(&plan{first, nil})
		store := &sampledStore{r.Store, func() (*outbox.Sample, error) {
			p := next.Load()
			if p.sample == nil {
				return nil, p.err
			}
			copied := *p.sample
			return &copied, p.err
		}}
		relay, err := outbox.NewRelay(store, outbox.To(&outboxtest.Recorder{}), &outbox.Config{Hooks: r.hooks, SampleInterval: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- relay.Run(ctx) }()
		time.Sleep(time.Second)
		r.want(t, map[string]float64{"outbox.ready{}": 7, "outbox.waiting{state=scheduled}": 4, "outbox.waiting{state=retrying}": 0,
			"outbox.dead{}": 0, "outbox.blocked_keys{}": 3, "outbox.oldest_eligible.age{}": 90, "outbox.oldest_blocked.age{}": 0,
			"outbox.relays{}": 2, "outbox.entered{}": 1000, "outbox.left{}": 0, "outbox.unhandled{}": 0, "outbox.in_flight{}": 0,
			"outbox.slot.retained{}": 4096, "outbox.slot.unconfirmed{}": 512})
		next.Store(&plan{nil, errors.New("no database")})
		time.Sleep(30 * time.Second)
		if v := r.values(t); v["outbox.ready{}"] != 7 || v["outbox.sample.age{}"] < 25 {
			t.Errorf("half a minute after: ready %v, age %v", v["outbox.ready{}"], v["outbox.sample.age{}"])
		}
		gone := func(when string) {
			t.Helper()
			for name := range r.values(t) {
				for _, gauge := range []string{"ready", "waiting", "dead{", "sample", "oldest", "entered", "relays", "slot"} {
					if strings.HasPrefix(name, "outbox."+gauge) {
						t.Errorf("%s %s is still told", when, name)
					}
				}
			}
		}
		time.Sleep(15 * time.Second)
		gone("stale,")
		next.Store(&plan{&outbox.Sample{}, nil})
		time.Sleep(10 * time.Second)
		r.want(t, map[string]float64{"outbox.ready{}": 0})
		next.Store(&plan{}) // another relay looks
		time.Sleep(10 * time.Second)
		gone("at another relay,")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestTopicsBeginAtZero: with the first event of a topic all its counters are there, so that the next scrape has something to
// see an increase from.
func TestTopicsBeginAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		r.publish(t, t.Context(), outbox.Message{Topic: "orders.created"})
		r.deliver(t, &outboxtest.Recorder{}, outbox.Config{})
		want := map[string]float64{}
		for _, name := range []string{"retried", "dead_lettered", "dropped", "expired", "given_back", "fenced"} {
			want["outbox."+name+"{destination=default,topic=orders.created}"] = 0
		}
		r.want(t, want)
	})
}

// streamedStore is an outbox whose stream is planned.
type streamedStore struct {
	*outboxtest.Store
	now atomic.Pointer[outbox.Streaming]
}

func (s *streamedStore) Streaming() outbox.Streaming { return *s.now.Load() }

// TestStreamGauges follow the stream of the relay, and end at zero with it.
func TestStreamGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		if v, ok := r.values(t)["outbox.streaming{}"]; ok {
			t.Errorf("who only publishes has outbox.streaming %v", v)
		}
		store := &streamedStore{Store: r.Store}
		store.now.Store(&outbox.Streaming{Problem: "no slot"})
		relay, err := outbox.NewRelay(store, outbox.To(&outboxtest.Recorder{}), &outbox.Config{Hooks: r.hooks})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- relay.Run(ctx) }()
		time.Sleep(time.Second)
		r.want(t, map[string]float64{"outbox.streaming{}": 0, "outbox.stream.failing{}": 1, "outbox.stream.lag{}": 0, "outbox.stream.buffered{}": 0})
		store.now.Store(&outbox.Streaming{On: true, Lag: 1500 * time.Millisecond, Buffered: 7})
		time.Sleep(2 * time.Second)
		r.want(t, map[string]float64{"outbox.streaming{}": 1, "outbox.stream.failing{}": 0, "outbox.stream.lag{}": 1.5, "outbox.stream.buffered{}": 7})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.want(t, map[string]float64{"outbox.streaming{}": 0, "outbox.stream.failing{}": 0, "outbox.stream.lag{}": 0, "outbox.stream.buffered{}": 0})
	})
}

// TestBreakerGauges follow a destination that is down.
func TestBreakerGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		r.publish(t, t.Context(), outbox.Message{Topic: "a"})
		var up atomic.Bool
		looked := make(chan map[string]float64, 1)
		go func() {
			time.Sleep(100 * time.Millisecond)
			looked <- r.values(t)
			up.Store(true)
		}()
		r.deliver(t, outbox.SinkFunc(func(context.Context, *outbox.Delivery) error {
			if !up.Load() {
				return outbox.Misconfigured(errors.New("no exchange"))
			}
			return nil
		}), outbox.Config{})
		seen, to := <-looked, "{destination=default}"
		if seen["outbox.breaker.open"+to] != 1 || seen["outbox.breaker.misconfigured"+to] != 1 {
			t.Errorf("while it is down: %v", seen)
		}
		r.want(t, map[string]float64{"outbox.breaker.open" + to: 0, "outbox.breaker.misconfigured" + to: 0, "outbox.breaker.opened" + to: 1,
			"outbox.given_back{destination=default,topic=a}": 1, "outbox.delivered{destination=default,topic=a}": 1})
	})
}

// TestPageListsInstruments: docs/observability.md has the instruments as they are.
func TestPageListsInstruments(t *testing.T) {
	text, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- instruments -->\n")
	table, _, ok := strings.Cut(rest, "<!-- end -->\n")
	if want := otelhook.Table(); !ok || table != want {
		t.Errorf("the page has\n%s\nwant\n%s", table, want)
	}
}

package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// memory is a destination that keeps messages in memory, and the sink for it. Its protocol is text lines for headers,
// so that it has something to break.
type memory struct {
	rules
	mu      sync.Mutex
	stopped bool
	thawed  chan struct{}   // nil while it answers
	seen    map[string]bool // idempotency keys
	all     []Stored
}

// rules are where a wrong memory differs from a sound one.
type rules struct {
	keep      func(n int) bool // whether the nth message is really stored
	payload   func([]byte) []byte
	header    func(name, value string) (string, string, bool)
	key       func(d *outbox.Delivery) string // by which copies are recognised
	refuse    func(d *outbox.Delivery) error
	away      error
	published func(time.Time) string
	batch     func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error
	ping      func(away bool) error
	lines     bool                                                    // the protocol carries line breaks
	silence   func(ctx context.Context, thawed <-chan struct{}) error // what a sink does that gets no answer
	add       func(all []Stored, s Stored) []Stored
}

const memoryLimit = 100 << 10

func soundRules() rules {
	return rules{
		keep:    func(int) bool { return true },
		payload: bytes.Clone,
		header:  func(name, value string) (string, string, bool) { return name, value, true },
		key:     func(d *outbox.Delivery) string { return d.ID.String() + "." + strconv.Itoa(d.Generation) },
		refuse:  refuse,
		away:    outbox.Unavailable(errors.New("away")),
		published: func(t time.Time) string {
			return t.UTC().Format(time.RFC3339Nano)
		},
		batch: (*memory).deliverEach,
		ping: func(away bool) error {
			if away {
				return errors.New("away")
			}
			return nil
		},
		silence: awaitAnswer,
		add:     func(all []Stored, s Stored) []Stored { return append(all, s) },
	}
}

// awaitAnswer waits for the end of the silence, of the context or of the sink's own patience.
func awaitAnswer(ctx context.Context, thawed <-chan struct{}) error {
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return outbox.Unavailable(errors.New("no answer"))
	}
}

func refuse(d *outbox.Delivery) error {
	if len(d.Payload) >= memoryLimit {
		return outbox.Permanent(errors.New("too large"))
	}
	return refuseHeaders(d)
}

// forged: a name that is the sink's own.
func forged(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "outbox-") && name != "Outbox-Causation"
}

func refuseHeaders(d *outbox.Delivery) error {
	for name, value := range d.Headers {
		if name == "" || strings.ContainsAny(name, "\r\n: ") || strings.ContainsAny(value, "\r\n") || forged(name) {
			return outbox.Permanent(errors.New("not a header"))
		}
	}
	if strings.ContainsAny(d.Key, "\r\n") {
		return outbox.Permanent(errors.New("not a key"))
	}
	return nil
}

func (m *memory) Deliver(ctx context.Context, d *outbox.Delivery) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.refuse(d); err != nil {
		return err
	}
	m.mu.Lock()
	thawed := m.thawed
	m.mu.Unlock()
	if thawed != nil {
		if err := m.silence(ctx, thawed); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return m.away
	}
	if key := m.key(d); m.seen[key] {
		return nil
	} else {
		m.seen[key] = true
	}
	if m.keep(len(m.all)) {
		m.all = m.add(m.all, m.stored(d))
	}
	return nil
}

func (m *memory) stored(d *outbox.Delivery) Stored {
	lines, s := "", Stored{Payload: m.payload(d.Payload), Headers: map[string]string{}}
	add := func(name, value string) {
		name, value, ok := m.header(name, value)
		switch {
		case ok && m.lines:
			s.Headers[name] = value
		case ok:
			lines += name + ": " + value + "\r\n"
		}
	}
	for name, value := range map[string]string{
		"Outbox-Id": d.ID.String(), "Outbox-Topic": d.Topic, "Outbox-Seq": fmt.Sprint(d.Seq), "Outbox-Published-At": m.published(d.PublishedAt),
	} {
		add(name, value)
	}
	if d.Key != "" {
		add("Outbox-Key", d.Key)
	}
	if d.Generation > 0 {
		add("Outbox-Generation", strconv.Itoa(d.Generation))
	}
	for name, value := range d.Headers {
		add(name, value)
	}
	for line := range strings.FieldsFuncSeq(lines, func(r rune) bool { return r == '\r' || r == '\n' }) {
		name, value, _ := strings.Cut(line, ": ")
		s.Headers[name] = value
	}
	return s
}

func (m *memory) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	return m.batch(m, ctx, ds, report)
}

func (m *memory) deliverEach(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	for i, d := range ds {
		report(i, m.Deliver(ctx, d))
	}
	return nil
}

func (m *memory) Pipelines() bool { return true }

func (m *memory) Ping(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ping(m.stopped)
}

func (m *memory) Preflight(ctx context.Context) error { return m.Ping(ctx) }

// The harness is the memory itself.

func (m *memory) Sink() outbox.Sink { return m }

func (m *memory) Features() Features {
	return Features{Deduplicates: true, TooLarge: memoryLimit, LineHeaders: !m.lines}
}

func (m *memory) Stored(context.Context) ([]Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Stored(nil), m.all...), nil
}

func (m *memory) Stop(context.Context) error  { return m.stop(true) }
func (m *memory) Start(context.Context) error { return m.stop(false) }

func (m *memory) stop(stopped bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = stopped
	return nil
}

func (m *memory) Freeze(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thawed = make(chan struct{})
	return nil
}

func (m *memory) Thaw(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.thawed)
	m.thawed = nil
	return nil
}

func newMemory(r rules) *memory { return &memory{rules: r, seen: map[string]bool{}} }

func TestMemoryConforms(t *testing.T) {
	Run(t, func(t *testing.T) Harness {
		t.Parallel()
		return newMemory(soundRules())
	})
}

// TestBinaryConforms: a protocol that carries everything.
func TestBinaryConforms(t *testing.T) {
	Run(t, func(t *testing.T) Harness {
		t.Parallel()
		r := soundRules()
		carryLines(&r)
		return newMemory(r)
	})
}

// carryLines makes the protocol one of lengths instead of lines; names keep their rules.
func carryLines(r *rules) {
	r.lines = true
	r.refuse = func(d *outbox.Delivery) error {
		names := outbox.Delivery{Message: outbox.Message{Payload: d.Payload, Headers: map[string]string{}}}
		for name := range d.Headers {
			names.Headers[name] = ""
		}
		return refuse(&names)
	}
}

// plain is a memory whose sink takes no batches and whose destination deduplicates nothing.
type plain struct{ *memory }

func (p plain) Sink() outbox.Sink { return outbox.SinkFunc(p.Deliver) }

func (p plain) Features() Features { return Features{TooLarge: memoryLimit, LineHeaders: true} }

func TestPlainSinkConforms(t *testing.T) {
	Run(t, func(t *testing.T) Harness {
		t.Parallel()
		r, n := soundRules(), 0
		r.key = func(*outbox.Delivery) string { n++; return strconv.Itoa(n) }
		return plain{newMemory(r)}
	})
}

// wrong is a sink with one fault, and cases of the suite that must find it.
type wrong struct {
	fault  string
	plant  func(r *rules)
	caught []string
}

func wrongContents() []wrong {
	return []wrong{
		{"acknowledges before it stores", func(r *rules) { r.keep = func(n int) bool { return false } },
			[]string{"acknowledged means stored", "many calls at a time", "a restart under load loses nothing", "an ended context is obeyed"}},
		{"cuts payloads at NUL", func(r *rules) {
			r.payload = func(p []byte) []byte { head, _, _ := bytes.Cut(p, []byte{0}); return head }
		}, []string{"bytes survive"}},
		{"keeps payloads as text", func(r *rules) { r.payload = func(p []byte) []byte { return bytes.ToValidUTF8(p, []byte("?")) } },
			[]string{"bytes survive"}},
		{"lower-cases header names", func(r *rules) {
			r.header = func(name, value string) (string, string, bool) { return strings.ToLower(name), value, true }
		}, []string{"headers survive"}},
		{"cuts long headers", func(r *rules) {
			r.header = func(name, value string) (string, string, bool) { return name, value[:min(len(value), 1000)], true }
		}, []string{"headers survive"}},
		{"does not name the key", func(r *rules) {
			r.header = func(name, value string) (string, string, bool) { return name, value, name != "Outbox-Key" }
		}, []string{"outbox headers tell the message"}},
		{"loses the causes", func(r *rules) {
			r.header = func(name, value string) (string, string, bool) { return name, value, name != "Outbox-Causation" }
		}, []string{"outbox headers tell the message"}},
		{"tells local times", func(r *rules) { r.published = func(t time.Time) string { return t.Format(time.RFC3339Nano) } },
			[]string{"outbox headers tell the message"}},
		{"makes the id anew for each attempt", func(r *rules) {
			r.key = func(d *outbox.Delivery) string { return fmt.Sprint(d.ID, d.Generation, d.Attempt) }
		}, []string{"sent again is the same message"}},
		{"swallows a redriven message", func(r *rules) { r.key = func(d *outbox.Delivery) string { return d.ID.String() } },
			[]string{"a redriven message is stored again"}},
		{"writes what it is given", func(r *rules) {
			r.refuse = func(d *outbox.Delivery) error {
				if len(d.Payload) >= memoryLimit {
					return outbox.Permanent(errors.New("too large"))
				}
				return nil
			}
		}, []string{"hostile headers are permanent and alone"}},
		{"retries what is too large", func(r *rules) {
			r.refuse = func(d *outbox.Delivery) error {
				if len(d.Payload) >= memoryLimit {
					return errors.New("too large")
				}
				return refuseHeaders(d)
			}
		}, []string{"too large is permanent and alone"}},
	}
}

func wrongBatches() []wrong {
	return []wrong{
		{"a refused message fails its batch", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				for _, d := range ds {
					if err := m.refuse(d); err != nil {
						return err
					}
				}
				return m.deliverEach(ctx, ds, report)
			}
		}, []string{"too large is permanent and alone", "hostile headers are permanent and alone"}},
		{"forgets the last message's result", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				return m.deliverEach(ctx, ds[:max(len(ds)-1, 0)], report)
			}
		}, []string{"acknowledged means stored", "many calls at a time"}},
		{"reports twice", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				return errors.Join(m.deliverEach(ctx, ds, report), m.deliverEach(ctx, ds, report))
			}
		}, []string{"acknowledged means stored"}},
		{"fails on nothing", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				if len(ds) == 0 {
					return errors.New("nothing to do")
				}
				return m.deliverEach(ctx, ds, report)
			}
		}, []string{"an empty batch is no error"}},
		{"mixes the messages of a call", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				for i := len(ds) - 1; i >= 0; i-- {
					report(i, m.Deliver(ctx, ds[i]))
				}
				return nil
			}
		}, []string{"a sink that pipelines keeps the order of a call"}},
		{"sends what is behind a refused message first", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				at := slices.IndexFunc(ds, func(d *outbox.Delivery) bool { return m.refuse(d) != nil })
				for i := range ds {
					i = (i + at + 1) % len(ds)
					report(i, m.Deliver(ctx, ds[i]))
				}
				return nil
			}
		}, []string{"a sink that pipelines keeps the order of a call"}},
		{"changes the message", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				err := m.deliverEach(ctx, ds, report)
				for _, d := range ds {
					if d.Headers != nil {
						d.Headers["sent"] = "yes"
					}
				}
				return err
			}
		}, []string{"deliveries are not changed"}},
	}
}

func wrongAway() []wrong {
	return []wrong{
		{"blames the message for an absence", func(r *rules) { r.away = errors.New("away") },
			[]string{"away is unavailable", "a restart under load loses nothing"}},
		{"buries messages in an absence", func(r *rules) { r.away = outbox.Permanent(errors.New("away")) },
			[]string{"away is unavailable", "a deadline is obeyed while away", "a restart under load loses nothing"}},
		{"acknowledges while away", func(r *rules) { r.away = nil },
			[]string{"away is unavailable", "a deadline is obeyed while away", "a restart under load loses nothing"}},
		{"always pings", func(r *rules) { r.ping = func(bool) error { return nil } }, []string{"away is unavailable"}},
		{"waits for its destination", func(r *rules) {
			r.batch = func(m *memory, ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				if m.Ping(ctx) != nil || ctx.Err() != nil {
					time.Sleep(slack + 100*time.Millisecond)
				}
				return m.deliverEach(ctx, ds, report)
			}
		}, []string{"a deadline is obeyed while away", "an ended context is obeyed"}},
	}
}

// TestSuiteFindsWrongSinks shows the suite that it can fail: each wrong sink is found by the cases that are there for
// its fault, and each case is there for some wrong sink.
func TestSuiteFindsWrongSinks(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for wrong sinks")
	}
	cases, finds := map[string]Case{}, map[string]bool{}
	for _, c := range Cases() {
		cases[c.Name] = c
	}
	for _, w := range slices.Concat(wrongContents(), wrongBatches(), wrongAway(), wrongFaults()) {
		for _, name := range w.caught {
			finds[name] = true
		}
		t.Run(w.fault, func(t *testing.T) {
			t.Parallel()
			for _, name := range w.caught {
				if c, ok := cases[name]; !ok || !fails(t, c, w.plant) {
					t.Errorf("not found by %q, if there is such a case; found by %q", name, finders(t, w.plant))
				}
			}
		})
	}
	for name := range cases {
		if !finds[name] {
			t.Errorf("the case %q is there for no wrong sink", name)
		}
	}
}

// finders runs the whole suite on a wrong sink and returns the names of the cases that fail.
func finders(t *testing.T, plant func(r *rules)) (names []string) {
	for _, c := range Cases() {
		if fails(t, c, plant) {
			names = append(names, c.Name)
		}
	}
	return names
}

func fails(t *testing.T, c Case, plant func(r *rules)) bool {
	r := soundRules()
	plant(&r)
	return planted.Failures(t, func(t testing.TB) { c.Run(t, newMemory(r)) }) != ""
}

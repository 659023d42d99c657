package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// survival is a relay as a process, whose services are disturbed while it delivers.
type survival struct {
	postgres  *pgdev.Server
	nats      *natsdev.Server
	url       string
	relay     *program
	js        jetstream.JetStream
	conn      *nats.Conn
	published int
	seen      map[int]bool   // numbers that were stored, as far as the stream has been read
	latest    map[string]int // of each key, in the stream's present life
}

const (
	survivalStream = "ORDERS"
	survivalPart   = 5_000
	survivalKeys   = 100
)

func newSurvival(t *testing.T) *survival {
	t.Helper()
	s := &survival{postgres: pgtest.Server(t, pgdev.Config{}), nats: natsServer(t), seen: map[int]bool{}}
	s.url = s.postgres.URL("postgres")
	call(t, nil, "migrate", "up", "--database-url="+s.url).want(t, exitDone)
	conn, err := nats.Connect(s.nats.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s.conn = conn
	if s.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	s.createStream(t)
	s.relay = start(t, nil, "run", "--database-url="+s.url, "--to="+s.nats.URL(), "--stream="+survivalStream, "--subject=orders.{topic}", "--log-format=json",
		"--slots=200", "--batch-size=100")
	eventually(t, "the relay runs", func() bool { return call(t, nil, "health", "--any", "--database-url="+s.url).code == exitDone })
	return s
}

func (s *survival) createStream(t *testing.T) {
	t.Helper()
	_, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: survivalStream, Subjects: []string{"orders.>"}, Duplicates: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.latest = map[string]int{}
}

// publish publishes a part. The relay is stopped meanwhile, so that it has all of it to do.
func (s *survival) publish(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	for range survivalPart {
		fmt.Fprintf(&lines, `{"topic":"placed","key":"k%d","payload":%d}`+"\n", s.published%survivalKeys, s.published)
		s.published++
	}
	file := write(t, filepath.Join(t.TempDir(), "lines"), lines.String())
	s.relay.signal(t, syscall.SIGSTOP)
	defer s.relay.signal(t, syscall.SIGCONT)
	call(t, nil, "publish", "--database-url="+s.url, "--file", file).want(t, exitDone)
}

func (s *survival) arrived(t *testing.T) int {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), survivalStream)
	if err != nil {
		return -1 // while the server restarts
	}
	return int(stream.CachedInfo().State.Msgs)
}

// amid publishes and returns while the relay is delivering.
func (s *survival) amid(t *testing.T) {
	t.Helper()
	for {
		before := s.arrived(t)
		s.publish(t)
		now := before
		for deadline := time.Now().Add(30 * time.Second); now <= before; now = s.arrived(t) {
			if time.Now().After(deadline) {
				t.Fatalf("nothing arrives: %s", s.relay.log.String())
			}
		}
		if now < before+survivalPart {
			return
		}
		t.Log("the relay was faster than the look at it; once more")
	}
}

// drain waits until everything is delivered.
func (s *survival) drain(t *testing.T) {
	t.Helper()
	r := call(t, nil, "wait", "--timeout=90s", "--database-url="+s.url)
	if r.code != exitDone {
		t.Fatalf("not drained: %s\n%s", r.err, s.relay.log.String())
	}
}

// read reads the stream from its beginning.
func (s *survival) read(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := s.js.Stream(ctx, survivalStream)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	arrivals := map[int]bool{}
	for left := stream.CachedInfo().State.Msgs; left > 0; {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		left = meta.NumPending
		n, key := s.number(t, m.Data()), m.Headers().Get("Outbox-Key")
		if !arrivals[n] && n < s.latest[key] {
			t.Errorf("number %d of key %s arrived after %d", n, key, s.latest[key])
		}
		arrivals[n] = true
		s.latest[key] = max(n, s.latest[key])
	}
	maps.Copy(s.seen, arrivals)
	s.latest = map[string]int{}
}

func (s *survival) number(t *testing.T, payload []byte) (n int) {
	t.Helper()
	if err := json.Unmarshal(payload, &n); err != nil || n >= s.published {
		t.Errorf("payload %q was never published: %v", payload, err)
	}
	return n
}

// deleteStream deletes the stream and notes what it held. What is stored between the reading and the deletion is
// seen by a subscription that is older than the reading and ends after the deletion.
func (s *survival) deleteStream(t *testing.T) {
	t.Helper()
	sub, err := s.conn.SubscribeSync("orders.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s.read(t)
	if err := s.js.DeleteStream(t.Context(), survivalStream); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(time.Millisecond) // all of them are here since the flush
		if err != nil {
			break
		}
		s.seen[s.number(t, m.Data)] = true
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
}

// record is a line of the relay's log.
type record struct {
	Level, Msg, Call, Destination string
}

func (s *survival) log(t *testing.T) (records []record) {
	t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(s.relay.log.String()))
	for scanner.Scan() {
		var r record
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			t.Errorf("%v: %s", err, scanner.Text())
		}
		records = append(records, r)
	}
	return records
}

// TestRunSurvives: whatever happens to the services, everything is delivered, in order, nothing is dead, and the log
// has one line for each change of state.
func TestRunSurvives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	s := newSurvival(t)
	for _, disturb := range []struct {
		name    string
		outages int // of the destination, at most: an idle relay may not notice a short one
		do      func(t *testing.T)
	}{
		{"NATS restarted", 1, func(t *testing.T) {
			if err := s.nats.Restart(); err != nil {
				t.Fatal(err)
			}
		}},
		{"PostgreSQL restarted", 0, func(t *testing.T) {
			if err := s.postgres.Stop(t.Context(), pgdev.Fast); err != nil {
				t.Fatal(err)
			}
			if err := s.postgres.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"all connections terminated", 1, func(t *testing.T) {
			database, err := s.postgres.Cluster().Terminate(t.Context(), "")
			broker, err2 := s.nats.Terminate()
			if err != nil || err2 != nil || database == 0 || broker < 2 {
				t.Fatal(database, broker, err, err2)
			}
		}},
		{"stream deleted and recreated", 1, func(t *testing.T) {
			s.deleteStream(t)
			eventually(t, "the relay notices", func() bool { return readTroubles(s.log(t)).open["default"] })
			s.createStream(t)
		}},
	} {
		t.Run(disturb.name, func(t *testing.T) {
			before := readTroubles(s.log(t))
			s.amid(t)
			disturb.do(t)
			s.drain(t)
			after := readTroubles(s.log(t))
			if n := after.begun["default"] - before.begun["default"]; n > disturb.outages {
				t.Errorf("the destination became unavailable %d times, want at most %d", n, disturb.outages)
			}
		})
	}
	eventually(t, "all trouble has ended", func() bool { return len(readTroubles(s.log(t)).open) == 0 })
	readTroubles(s.log(t)).wantFew(t)
	s.relay.signal(t, syscall.SIGTERM)
	s.relay.wantExit(t, exitDone)
	s.read(t)
	for n := range s.published {
		if !s.seen[n] {
			t.Errorf("number %d is lost", n)
		}
	}
	r := call(t, nil, "status", "--json", "--database-url="+s.url)
	wantIn(t, r.out, `"dead":{"messages":0}`)
	if t.Failed() {
		t.Logf("log of the relay:\n%s", s.relay.log.String())
	}
}

// troubles are what the log told of a destination or of a call of the database: each begins and ends by a line, and
// between the two only another reason is told.
type troubles struct {
	begun map[string]int  // by destination or call
	open  map[string]bool // not ended
	wrong []string        // what should not be there
}

const unavailable = "destination is unavailable"

func readTroubles(records []record) troubles {
	found := troubles{begun: map[string]int{}, open: map[string]bool{}}
	wrong := func(why string, r record) { found.wrong = append(found.wrong, fmt.Sprintf("%s: %+v", why, r)) }
	for _, r := range records {
		subject := r.Call + r.Destination
		switch r.Msg {
		case unavailable, "store failed, will be asked again", "cannot listen for notifications, polling meanwhile":
			if found.open[subject] {
				wrong("told twice", r)
			}
			found.open[subject] = true
			found.begun[subject]++
		case "destination is available again", "store works again", "listening for notifications again":
			if !found.open[subject] {
				wrong("ended and never begun", r)
			}
			delete(found.open, subject)
		case "destination is misconfigured": // at once, or found out while it is unavailable
			if !found.open[subject] {
				found.begun[subject]++
			}
			found.open[subject] = true
		case "destination is unavailable for another reason":
			if !found.open[subject] {
				wrong("another reason for nothing", r)
			}
		default:
			if r.Level != "INFO" {
				wrong("unexpected line", r)
			}
		}
	}
	return found
}

// wantFew fails the test when something is wrong, and when a call of the database failed more often than there were
// connections to lose.
func (f troubles) wantFew(t *testing.T) {
	t.Helper()
	for _, text := range f.wrong {
		t.Error(text)
	}
	const disturbances, poolConnections = 2, 2
	if f.begun["claim"] == 0 {
		t.Error("the log does not tell that the database was away")
	}
	for subject, n := range f.begun {
		if n > disturbances*poolConnections {
			t.Errorf("%q was in trouble %d times", subject, n)
		}
	}
}

// TestTroublesFires: what must not be in the log is noticed.
func TestTroublesFires(t *testing.T) {
	begin, end := record{Level: "WARN", Msg: unavailable, Destination: "d"}, record{Level: "INFO", Msg: "destination is available again", Destination: "d"}
	for _, c := range []struct {
		name    string
		records []record
		fails   bool
	}{
		{"pairs", []record{begin, end, begin, end}, false},
		{"told twice", []record{begin, begin, end}, true},
		{"ended only", []record{end}, true},
		{"another warning", []record{{Level: "ERROR", Msg: "message is dead"}}, true},
	} {
		if wrong := readTroubles(c.records).wrong; (len(wrong) > 0) != c.fails {
			t.Errorf("%s: found %q, want something: %v", c.name, wrong, c.fails)
		}
	}
}

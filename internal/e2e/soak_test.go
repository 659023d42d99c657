package e2e

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/pgstore"
)

// Variables of the environment for the soak: how long it lasts, and where messages go to.
const (
	soakVariable            = "OUTBOX_TEST_SOAK"
	soakDestinationVariable = "OUTBOX_TEST_SOAK_DESTINATION"
)

// TestSoak plays random faults of the matrix for a long time on one fleet: a streaming relay that is never killed and a
// polling one, under a constant load. Every few minutes everything is delivered and judged; after each fault the relays'
// memory, goroutines and connections and the tables' dead rows are within their bounds. make soak plays it for an hour.
func TestSoak(t *testing.T) {
	text := os.Getenv(soakVariable)
	if text == "" {
		t.Skipf("%s says how long", soakVariable)
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 {
		t.Fatalf("%s=%q: want a duration, such as 1h", soakVariable, text)
	}
	s := newSoak(t, cmp.Or(os.Getenv(soakDestinationVariable), toJetStream))
	s.start()
	chapter := min(5*time.Minute, length)
	for end := time.Now().Add(length); time.Now().Before(end); {
		s.chapter(min(chapter, time.Until(end)))
	}
	for _, m := range s.fleet {
		m.Terminate()
	}
	s.wantNoGrowth()
}

// soak is a cell that goes on.
type soak struct {
	*cell
	faults  []*fault
	samples []sample
}

func newSoak(t *testing.T, destination string) *soak {
	t.Helper()
	r := row{&fault{name: "soak", needs: links}, place{pgstore.EngineWAL, destination, "skip"}}
	if !r.brokered() {
		t.Fatalf("%s=%q: want %s or %s", soakDestinationVariable, destination, toJetStream, toRabbitMQ)
	}
	s := &soak{cell: newCell(t, newSite(t, destination), r, seedOf(t))}
	s.engines, s.survivor, s.watched = []string{"wal", "poll"}, true, true
	for i := range faults {
		f := &faults[i]
		if !f.last && (f.needs == nothing || f.needs == links) && (f.in == nil || f.in(r.place)) {
			s.faults = append(s.faults, f)
		}
	}
	return s
}

// chapter plays faults for a while, then stops publishing and judges what was published.
func (s *soak) chapter(length time.Duration) {
	s.t.Helper()
	if s.publisher == nil {
		s.h = crashtest.New(s.t)
		s.target.forget(s.t)
		s.repeats = 0
		s.publish()
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		f := s.faults[s.random.IntN(len(s.faults))]
		f.play(s.cell)
		s.awaitProgress()
		s.sample(f.name)
	}
	s.drain()
	s.publisher = nil
	m, err := s.judge()
	s.t.Logf("%+v", m)
	if err != nil {
		s.t.Fatal(err)
	}
}

// sample is what the processes and tables take when a fault is over.
type sample struct {
	resident        []int // bytes of each relay
	goroutines      []int // of each relay
	connections     int   // of all relays
	deadRows, bytes int   // of the outbox's tables but the archive
}

// Bounds of a sample, with 100 slots and small messages.
const (
	mostResident    = 160 << 20
	mostGoroutines  = 150
	mostConnections = 2 * 5 // a relay that streams and listens has five
	mostDeadRows    = 200_000
	mostBytes       = 128 << 20
)

func (s *soak) sample(after string) {
	s.t.Helper()
	// What the fault has cut off goes when the server notices, what a lost lease leaves with the next ones' ends.
	until(s.t, patience, "the relays have no more connections than they promise after: "+after, func() bool {
		n := s.db.count(s.t.Context(), relayConnections)
		return n >= 0 && n <= mostConnections
	})
	x := sample{connections: s.db.count(s.t.Context(), relayConnections), deadRows: s.db.count(s.t.Context(), deadRows),
		bytes: s.db.count(s.t.Context(), tableBytes)}
	for _, m := range s.fleet {
		x.resident = append(x.resident, resident(s.t, m.PID()))
		x.goroutines = append(x.goroutines, goroutines(s.t, m.admin))
	}
	s.samples = append(s.samples, x)
	s.t.Logf("%s: %d MiB, %d goroutines, %d connections, %d dead rows, tables of %d MiB", after, mebibytes(x.resident), x.goroutines,
		x.connections, x.deadRows, x.bytes>>20)
	for _, problem := range x.excess() {
		s.t.Error(problem)
	}
}

const (
	relayConnections = `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'relay'`
	deadRows         = `select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables where schemaname = 'outbox' and relname !~ '^archive'`
	tableBytes       = `select coalesce(sum(pg_total_relation_size(relid)), 0) from pg_stat_user_tables where schemaname = 'outbox' and relname !~ '^archive'`
)

func (x sample) excess() (problems []string) {
	over := func(what string, is, most int) {
		if is > most {
			problems = append(problems, fmt.Sprintf("%s: %d, at most %d are right", what, is, most))
		}
	}
	for i := range x.resident {
		over(fmt.Sprintf("memory of relay %d", i), x.resident[i], mostResident)
		over(fmt.Sprintf("goroutines of relay %d", i), x.goroutines[i], mostGoroutines)
	}
	over("connections", x.connections, mostConnections)
	over("dead rows", x.deadRows, mostDeadRows)
	over("bytes of tables", x.bytes, mostBytes)
	return problems
}

// wantNoGrowth compares the relay that has lived all the time at the end with itself at the beginning.
func (s *soak) wantNoGrowth() {
	s.t.Helper()
	for _, problem := range growth(s.samples) {
		s.t.Error(problem)
	}
}

// growth compares the medians of the first and the last quarter. A part of what there is more is the collector's leisure.
func growth(samples []sample) (problems []string) {
	n := len(samples) / 4
	if n < 3 {
		return nil
	}
	for what, of := range map[string]func(sample) int{
		"memory":     func(x sample) int { return x.resident[0] },
		"goroutines": func(x sample) int { return x.goroutines[0] },
	} {
		first, last := median(samples[:n], of), median(samples[len(samples)-n:], of)
		if last > first*3/2 {
			problems = append(problems, fmt.Sprintf("%s of the relay that lived throughout: %d at the beginning, %d at the end", what, first, last))
		}
	}
	return problems
}

func median(samples []sample, of func(sample) int) int {
	var all []int
	for _, x := range samples {
		all = append(all, of(x))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func mebibytes(all []int) (some []int) {
	for _, n := range all {
		some = append(some, n>>20)
	}
	return some
}

// resident is the memory of a process.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("the memory of a process is not known here: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// goroutines is what a relay says of itself.
func goroutines(t *testing.T, admin string) int {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatal("the relay's metrics do not tell its goroutines")
	return 0
}

// TestSoakBoundsFire: each bound notices, and so does growth within the bounds.
func TestSoakBoundsFire(t *testing.T) {
	good := sample{resident: []int{60 << 20, 60 << 20}, goroutines: []int{40, 40}, connections: 9, deadRows: 1000, bytes: 1 << 20}
	if got := good.excess(); len(got) != 0 {
		t.Errorf("within the bounds: %q", got)
	}
	bad := sample{resident: []int{1, mostResident + 1}, goroutines: []int{1, mostGoroutines + 1}, connections: mostConnections + 1,
		deadRows: mostDeadRows + 1, bytes: mostBytes + 1}
	if got := bad.excess(); len(got) != 5 {
		t.Errorf("beyond all bounds: %q", got)
	}
	var steady, growing []sample
	for i := range 20 {
		steady = append(steady, good)
		x := good
		x.resident, x.goroutines = []int{(60 + 3*i) << 20, 0}, []int{40 + 3*i, 0}
		growing = append(growing, x)
	}
	if got := growth(steady); len(got) != 0 {
		t.Errorf("steady: %q", got)
	}
	if got := growth(growing); len(got) != 2 {
		t.Errorf("growing: %q", got)
	}
}

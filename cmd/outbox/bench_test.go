package main

import (
	"context"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/bench"
)

// schemas are those of benches in a database.
func benchSchemas(t *testing.T, url string) (names []string) {
	t.Helper()
	err := connect(t, url).QueryRow(t.Context(), "select coalesce(array_agg(nspname::text), '{}') from pg_namespace where nspname like 'outbox%'").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestBench: everything is measured, nothing is lost, and nothing is left. An outbox that is there is not touched.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	url := migrated(t)
	id := strings.TrimSpace(call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone).out)
	r := call(t, nil, "bench", "--rows=200", "--keys=7", "--payload=1KiB", "--duration=1s", "--rate=50", "--json", "--database-url="+url).want(t, exitDone)
	wantIn(t, r.err, "made the schema outbox_bench_", "dropped the schema outbox_bench_")
	doc := decode[benchJSON](t, r)
	if len(doc.Results) != 6 || doc.Rows != 200 || doc.Keys != 7 || doc.PayloadBytes != 1024 || doc.RoundTripSeconds <= 0 {
		t.Errorf("%+v", doc)
	}
	for _, m := range doc.Results {
		if m.Rate <= 0 || m.RoundTrips <= 0 || m.Connections == 0 || m.Lost+m.Duplicates+m.Disorder != 0 {
			t.Errorf("%+v", m)
		}
	}
	if last := doc.Results[5]; last.P50Seconds == nil || *last.MaxSeconds <= 0 {
		t.Errorf("%+v", last)
	}
	if names := benchSchemas(t, url); len(names) != 1 {
		t.Errorf("schemas %q are left", names)
	}
	wantIn(t, call(t, nil, "run", "--once", "--to=stdout:", "--database-url="+url).want(t, exitDone).out, id)
}

// TestBenchInterrupted: the schema is dropped all the same; one of a bench that was killed is told of, and stays.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	execSQL(t, connect(t, url), "create schema outbox_bench_0123456789ab")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, log := &lockedBuffer{}, &lockedBuffer{}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"bench", "--rows=100", "--duration=1m", "--database-url=" + url}, nil, out, log)
	}()
	eventually(t, "it publishes", func() bool { return strings.Contains(log.String(), "publish: bare INSERT") })
	cancel()
	select {
	case code := <-ended:
		if code != exitFailed || out.String() != "" {
			t.Errorf("exit code %d, stdout %s", code, out.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	wantIn(t, log.String(), "interrupted", "dropped the schema", "drop schema outbox_bench_0123456789ab cascade")
	if names := benchSchemas(t, url); len(names) != 1 {
		t.Errorf("schemas %q are left", names)
	}
}

func TestBenchTable(t *testing.T) {
	a := &app{stdout: &lockedBuffer{}}
	measures := []bench.Measure{
		{Scenario: "drain", Case: "plain SQL", Unit: "msg/s", OfReference: math.NaN(), Sample: bench.Sample{Rate: 123456,
			More: []bench.Figure{{Name: "round trips/1k", Value: 4.04}, {Name: "conns", Value: 1}}}},
		{Scenario: "latency", Case: "commit to handler", Unit: "msg/s", OfReference: 0.5, Sample: bench.Sample{Rate: 100,
			More:   []bench.Figure{{Name: "p50 ms", Value: 1.25}, {Name: "p99 ms", Value: 8}, {Name: "max ms", Value: 20}},
			Faults: bench.Faults{Lost: 1, Duplicates: 2, Disorder: 3}}},
	}
	facts := bench.Facts{Version: "15.1", RoundTrip: 123 * time.Microsecond}
	trial := bench.Trial{Rows: 50_000, Payload: 512}
	if err := a.showBench(trial, facts, measures); err == nil {
		t.Error("lost messages are no failure")
	}
	golden(t, "bench", a.stdout.(*lockedBuffer).String())
	a.json, a.stdout = true, &lockedBuffer{}
	if err := a.showBench(trial, facts, measures[:1]); err != nil {
		t.Error(err)
	}
	golden(t, "bench_json", a.stdout.(*lockedBuffer).String())
}

// TestBenchWithoutRights: who may not create schemas is told so, and nothing is left.
func TestBenchWithoutRights(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	name := regexp.MustCompile(`outbox_test_[a-z0-9]+`).FindString(url)
	role := name + "_reader"
	conn := connect(t, url)
	execSQL(t, conn, "create role "+role+" login")
	defer execSQL(t, conn, "drop role "+role)
	r := call(t, nil, "bench", "--database-url="+strings.Replace(url, "postgres@", role+"@", 1)).want(t, exitFailed)
	wantIn(t, r.err, "permission denied")
	if names := benchSchemas(t, url); len(names) != 0 {
		t.Errorf("schemas %q are left", names)
	}
}

package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

//go:embed queries/trials.sql
var trialsSQL string

// Trial is a short benchmark of somebody's database, in a schema that it makes and drops. It measures only what this
// process can see: other work on the server is its own business.
type Trial struct {
	Rows, Keys  int
	Payload     int           // bytes, at most MaxTrialPayload
	Duration    time.Duration // of each run that publishes
	MessageRate int           // messages per second while latency is measured
	Tell        func(format string, args ...any)
}

// TrialSchema begins the name of a trial's schema.
const TrialSchema = "outbox_bench_"

// MaxTrialPayload is the largest payload that a backlog can have.
const MaxTrialPayload = 64 << 10

// Measure is what one run of a trial found.
type Measure struct {
	Scenario, Case string
	Unit           string
	Sample
	OfReference float64 // NaN: this is the reference, or there is none
}

// Facts are about the database.
type Facts struct {
	Version   string
	RoundTrip time.Duration // the median of some
	Abandoned []string      // schemas of trials that run, or were killed
}

// Run makes the schema, measures, and drops it, whatever happens.
func (t Trial) Run(ctx context.Context, cfg *pgxpool.Config) (facts Facts, list []Measure, err error) {
	schema := TrialSchema + strings.ReplaceAll(outbox.NewID().String(), "-", "")[20:]
	db, err := Connect(ctx, cfg, schema)
	if err != nil {
		return facts, nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	if facts, err = db.facts(ctx); err != nil {
		return facts, nil, err
	}
	m, err := pgstore.NewMigrator(cfg.ConnConfig, schema)
	if err != nil {
		return facts, nil, err
	}
	if _, err := m.Up(ctx); err != nil {
		return facts, nil, err
	}
	t.Tell("made the schema %s", schema)
	defer func() { err = errors.Join(err, t.drop(ctx, cfg, schema)) }()
	if err := db.MakeAccounts(ctx); err != nil {
		return facts, nil, err
	}
	list, err = t.measure(ctx, db)
	return facts, list, err
}

// dropLimit is how long removing the schema may take.
const dropLimit = time.Minute

// drop uses a connection of its own: the other one may have been cut in the middle of something.
func (t Trial) drop(ctx context.Context, cfg *pgxpool.Config, schema string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
	defer cancel()
	db, err := Connect(ctx, cfg, schema)
	if err == nil {
		err = errors.Join(db.Exec(ctx, "drop schema "+schema+" cascade"), db.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("the schema is still there; remove it by \"drop schema %s cascade\": %w", schema, err)
	}
	t.Tell("dropped the schema %s", schema)
	return nil
}

// roundTrips is how many are measured.
const roundTrips = 20

func (db *Database) facts(ctx context.Context) (f Facts, err error) {
	if err := db.conn.QueryRow(ctx, "select current_setting('server_version')").Scan(&f.Version); err != nil {
		return f, fmt.Errorf("read server_version: %w", err)
	}
	if err := db.conn.QueryRow(ctx, trialsSQL, TrialSchema).Scan(&f.Abandoned); err != nil {
		return f, fmt.Errorf("look for earlier trials: %w", err)
	}
	var took []float64
	for range roundTrips {
		begin := time.Now()
		if err := db.conn.Ping(ctx); err != nil {
			return f, err
		}
		took = append(took, time.Since(begin).Seconds())
	}
	f.RoundTrip = time.Duration(Median(took) * float64(time.Second))
	return f, nil
}

// measure runs everything once.
func (t Trial) measure(ctx context.Context, db *Database) (list []Measure, err error) {
	bases := map[string]float64{}
	for _, run := range []struct {
		scenario, name, unit string
		do                   func(ctx context.Context, db *Database) (Sample, error)
	}{
		{"drain", "plain SQL", "msg/s", t.plain},
		{"drain", "relay", "msg/s", t.relay},
		{"publish", "bare INSERT", "tx/s", t.publishes(nil)},
		{"publish", "notifications on", "tx/s", t.publishes(&pgstore.Config{})},
		{"publish", "notifications off", "tx/s", t.publishes(&pgstore.Config{Notify: pgstore.NotifyOff})},
		{"latency", "commit to handler", "msg/s", t.latency},
	} {
		t.Tell("%s: %s", run.scenario, run.name)
		if err := db.Truncate(ctx); err != nil {
			return nil, err
		}
		s, err := run.do(ctx, db)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", run.scenario, run.name, err)
		}
		m := Measure{run.scenario, run.name, run.unit, s, math.NaN()}
		if base, found := bases[run.scenario]; found {
			m.OfReference = Ratio(s.Rate, base)
		} else {
			bases[run.scenario] = s.Rate
		}
		list = append(list, m)
	}
	return list, nil
}

func (t Trial) backlog() Backlog { return Backlog{Rows: t.Rows, Keys: t.Keys, Payload: t.Payload} }

// plain reads and deletes in pages.
func (t Trial) plain(ctx context.Context, db *Database) (Sample, error) {
	if err := db.Fill(ctx, t.backlog()); err != nil {
		return Sample{}, err
	}
	tally, w := NewTally(t.Rows, t.Keys), &Wire{}
	pool, err := db.Pool(ctx, 1, w)
	if err != nil {
		return Sample{}, err
	}
	defer pool.Close()
	begin := time.Now()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return Sample{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	loop := Plain(t.backlog())
	loop.To = nowhere{}
	if err := loop.run(ctx, db, conn.Conn(), tally); err != nil {
		return Sample{}, err
	}
	return t.sample(ctx, db, time.Since(begin), t.Rows, w, tally)
}

// relay drains the same backlog to a sink that does nothing.
func (t Trial) relay(ctx context.Context, db *Database) (_ Sample, err error) {
	if err := db.Fill(ctx, t.backlog()); err != nil {
		return Sample{}, err
	}
	tally, w := NewTally(t.Rows, t.Keys), &Wire{}
	begin := time.Now()
	f, err := StartFleet(ctx, db.Stores, FleetConfig{Relays: 1, Route: Drain{To: nowhere{}}.route(tally), Tally: tally, Wire: w})
	if err != nil {
		return Sample{}, err
	}
	err = tally.Wait(ctx, f.Failed(), trialStall)
	took := time.Since(begin)
	if err := errors.Join(err, f.Stop()); err != nil {
		return Sample{}, err
	}
	return t.sample(ctx, db, took, t.Rows, w, tally)
}

// trialStall is how long nothing may be settled on a database that others use too.
const trialStall = 30 * time.Second

func (t Trial) sample(ctx context.Context, db *Database, took time.Duration, n int, w *Wire, tally *Tally) (Sample, error) {
	left, err := db.Left(ctx, 0)
	return Sample{float64(n) / took.Seconds(), w.figures(n), tally.Faults(left, Unknown)}, err
}

// figures are what clients sent.
func (w *Wire) figures(messages int) []Figure {
	return []Figure{{"round trips/1k", Per(float64(w.writes.Load()), 1000, messages)}, {"conns", float64(w.most.Load())}}
}

// publishes runs writers: through a store, or by a bare INSERT if there is no configuration.
func (t Trial) publishes(cfg *pgstore.Config) func(ctx context.Context, db *Database) (Sample, error) {
	return func(ctx context.Context, db *Database) (Sample, error) {
		w, how := &Wire{}, db.Insert()
		if cfg != nil {
			store, end, err := db.OpenStore(ctx, &Wire{}, *cfg)
			if err != nil {
				return Sample{}, err
			}
			defer end()
			how = Via(store)
		}
		pool, err := db.Pool(ctx, Writers, w)
		if err != nil {
			return Sample{}, err
		}
		defer pool.Close()
		writing := db.Writing(pool, how)
		writing.Payload = t.Payload
		begin := time.Now()
		n, err := writing.For(ctx, t.Duration)
		took := time.Since(begin)
		if err == nil && n == 0 {
			err = fmt.Errorf("no transaction was committed within %v", t.Duration)
		}
		if err != nil {
			return Sample{}, err
		}
		left, err := db.Left(ctx, int64(n))
		return Sample{float64(n) / took.Seconds(), w.figures(n), Missing(left)}, err
	}
}

// latency publishes at a fixed rate to a relay in this process.
func (t Trial) latency(ctx context.Context, db *Database) (_ Sample, err error) {
	n := max(1, int(t.Duration.Seconds()*float64(t.MessageRate)))
	tally, ts, w := NewTally(n, 0), NewTimes(n), &Wire{}
	store, end, err := db.OpenStore(ctx, &Wire{}, pgstore.Config{})
	if err != nil {
		return Sample{}, err
	}
	defer end()
	pool, err := db.Pool(ctx, Writers, w)
	if err != nil {
		return Sample{}, err
	}
	defer pool.Close()
	f, err := StartFleet(ctx, db.Stores, FleetConfig{Relays: 1, Route: ts.Route(nil, tally), Tally: tally, Wire: w})
	if err != nil {
		return Sample{}, err
	}
	writing := db.Writing(pool, Via(store))
	writing.Payload = t.Payload
	took, err := writing.AtRate(ctx, f, t.MessageRate, tally, ts, trialStall)
	if err := errors.Join(err, f.Stop()); err != nil {
		return Sample{}, err
	}
	s, err := t.sample(ctx, db, took, n, w, tally)
	s.More = append(ts.Figures(t.MessageRate), s.More...)
	return s, err
}

package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
)

var (
	//go:embed queries/wal.sql
	walSQL string
	//go:embed queries/functions.sql
	functionsSQL string
	//go:embed queries/dead_rows.sql
	deadRowsSQL string
)

// Meter measures the server and this process from its making to Stop.
type Meter struct {
	s      *Server
	wire   *Wire
	memory *memory
	begin  reading
	before counters
}

// reading is the state of what changes at once.
type reading struct {
	at         time.Time
	serverCPU  time.Duration // negative: unknown on this system
	clientCPU  time.Duration
	machine    time.Duration // busy time of all CPUs; negative: unknown
	wal        int64
	statements int64
	roundTrips int64
}

// counters are what backends report at the latest when they end.
type counters struct {
	claims, settles           int64
	claimMillis, settleMillis float64
	deadRows                  int64
}

// StartMeter reads the counters. Connections that are to be measured are counted by the wire.
func (s *Server) StartMeter(ctx context.Context, w *Wire) (m *Meter, err error) {
	m = &Meter{s: s, wire: w}
	if m.before, err = s.counters(ctx); err != nil {
		return nil, err
	}
	if m.begin, err = m.read(ctx); err != nil {
		return nil, err
	}
	m.memory = watchMemory(ctx)
	return m, nil
}

func (m *Meter) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now(), serverCPU: m.s.cpu(), clientCPU: ownCPU(), machine: machineCPU(),
		statements: m.wire.statements.Load(), roundTrips: m.wire.writes.Load()}
	if err := m.s.conn.QueryRow(ctx, walSQL).Scan(&r.wal); err != nil {
		return r, fmt.Errorf("read WAL position: %w", err)
	}
	return r, nil
}

func (s *Server) counters(ctx context.Context) (c counters, err error) {
	err = s.conn.QueryRow(ctx, functionsSQL).Scan(&c.claims, &c.claimMillis, &c.settles, &c.settleMillis)
	if err == nil {
		err = s.conn.QueryRow(ctx, deadRowsSQL).Scan(&c.deadRows)
	}
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	return c, nil
}

// Usage is what a run cost.
type Usage struct {
	Took                 time.Duration
	serverCPU, clientCPU time.Duration
	others               time.Duration // CPU time that other work on the machine took meanwhile
	wal                  int64
	statements           int64
	roundTrips           int64
	connections          int64 // at most at a time
	heap, rss            int64 // highest, in bytes; rss negative: unknown
	calls                counters
}

// Stop ends the measured time. Counters must be called later, when the clients have disconnected.
func (m *Meter) Stop(ctx context.Context) (Usage, error) {
	end, err := m.read(ctx)
	u := Usage{
		Took: end.at.Sub(m.begin.at), clientCPU: end.clientCPU - m.begin.clientCPU,
		serverCPU: end.serverCPU - m.begin.serverCPU, wal: end.wal - m.begin.wal,
		statements: end.statements - m.begin.statements, roundTrips: end.roundTrips - m.begin.roundTrips,
		connections: m.wire.most.Load(),
	}
	u.heap, u.rss = m.memory.stop()
	if end.serverCPU < 0 {
		u.serverCPU = -1
	}
	u.others = max(0, end.machine-m.begin.machine-u.serverCPU-u.clientCPU)
	if end.machine < 0 {
		u.others = -1
	}
	return u, err
}

// Abandon ends a measurement that will not be read.
func (m *Meter) Abandon(err error) error {
	m.memory.stop()
	return err
}

// Counters adds to u what the server counted: calls of the claim and settle functions, dead rows.
func (m *Meter) Counters(ctx context.Context, u *Usage) error {
	if err := m.s.Alone(ctx); err != nil {
		return err
	}
	after, err := m.s.counters(ctx)
	u.calls = counters{
		claims: after.claims - m.before.claims, claimMillis: after.claimMillis - m.before.claimMillis,
		settles: after.settles - m.before.settles, settleMillis: after.settleMillis - m.before.settleMillis,
		deadRows: after.deadRows - m.before.deadRows,
	}
	return err
}

// Finish is Stop and, when what was measured has been ended by end, Counters.
func (m *Meter) Finish(ctx context.Context, end func() error) (Usage, error) {
	u, err := m.Stop(ctx)
	if err := errors.Join(err, end()); err != nil {
		return u, err
	}
	err = m.Counters(ctx, &u)
	return u, err
}

// Figures are the costs per message.
func (u Usage) Figures(messages int) []Figure {
	serverCPU := math.NaN()
	if u.serverCPU >= 0 {
		serverCPU = Per(u.serverCPU.Seconds(), 100_000, messages)
	}
	return []Figure{
		{"PG CPU s/100k", serverCPU},
		{"client CPU s/100k", Per(u.clientCPU.Seconds(), 100_000, messages)},
		{"WAL B/msg", Per(float64(u.wal), 1, messages)},
		{"dead rows/msg", Per(float64(u.calls.deadRows), 1, messages)},
		{"statements/1k", Per(float64(u.statements), 1000, messages)},
		{"round trips/1k", Per(float64(u.roundTrips), 1000, messages)},
		{"conns", float64(u.connections)},
		{"others' CPU %", u.othersPercent()},
	}
}

func (u Usage) othersPercent() float64 {
	if u.others < 0 {
		return math.NaN()
	}
	return 100 * u.others.Seconds() / u.Took.Seconds() / float64(runtime.NumCPU())
}

// CallFigures are about claiming and settling.
func (u Usage) CallFigures(messages int) []Figure {
	return []Figure{
		{"claims/1k", Per(float64(u.calls.claims), 1000, messages)},
		{claimTime, Ratio(u.calls.claimMillis, float64(u.calls.claims))},
		{"settle ms", Ratio(u.calls.settleMillis, float64(u.calls.settles))},
	}
}

// claimTime is the server's time per call of the claim function.
const claimTime = "claim ms"

// IdleFigures are the costs of a time in which there was nothing to do; percentages are of one core.
func (u Usage) IdleFigures() []Figure {
	seconds := u.Took.Seconds()
	serverCPU := math.NaN()
	if u.serverCPU >= 0 {
		serverCPU = 100 * u.serverCPU.Seconds() / seconds
	}
	return []Figure{
		{"PG CPU %", serverCPU}, {"client CPU %", 100 * u.clientCPU.Seconds() / seconds}, {"conns", float64(u.connections)},
		{"WAL B/s", float64(u.wal) / seconds}, {"dead rows/s", float64(u.calls.deadRows) / seconds},
		{"claims/s", float64(u.calls.claims) / seconds}, {"others' CPU %", u.othersPercent()},
	}
}

// StatementsPerSecond is the rate of an idle relay.
func (u Usage) StatementsPerSecond() float64 { return float64(u.statements) / u.Took.Seconds() }

// MemoryFigures are about this process: everything in it counts.
func (u Usage) MemoryFigures() []Figure {
	const mib = 1 << 20
	rss := math.NaN()
	if u.rss >= 0 {
		rss = float64(u.rss) / mib
	}
	return []Figure{{"heap MiB", float64(u.heap) / mib}, {"RSS MiB", rss}}
}

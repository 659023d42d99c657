package main

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

var (
	//go:embed queries/wal.sql
	walSQL string
	//go:embed queries/functions.sql
	functionsSQL string
)

// clockTick is the unit of CPU times in /proc; Linux has told programs 100 per second on every architecture that Go
// runs on.
const clockTick = 10 * time.Millisecond

// meter measures the server and this process from its making to stop.
type meter struct {
	s      *server
	wire   *wire
	begin  reading
	before functionCalls
}

// reading is the state of all counters at one time.
type reading struct {
	at         time.Time
	serverCPU  time.Duration // negative: unknown on this system
	clientCPU  time.Duration
	machine    time.Duration // busy time of all CPUs; negative: unknown
	wal        int64
	statements int64
	roundTrips int64
}

// functionCalls are what the server counted of claiming and settling.
type functionCalls struct {
	claims, settles           int64
	claimMillis, settleMillis float64
}

// startMeter reads the counters. Connections that are to be measured are counted by the wire.
func (s *server) startMeter(ctx context.Context, w *wire) (m *meter, err error) {
	m = &meter{s: s, wire: w}
	if m.before, err = s.functionCalls(ctx); err != nil {
		return nil, err
	}
	m.begin, err = m.read(ctx)
	return m, err
}

func (m *meter) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now(), serverCPU: m.s.cpu(), clientCPU: ownCPU(), machine: machineCPU(),
		statements: m.wire.statements.Load(), roundTrips: m.wire.writes.Load()}
	if err := m.s.conn.QueryRow(ctx, walSQL).Scan(&r.wal); err != nil {
		return r, fmt.Errorf("read WAL position: %w", err)
	}
	return r, nil
}

func (s *server) functionCalls(ctx context.Context) (c functionCalls, err error) {
	err = s.conn.QueryRow(ctx, functionsSQL).Scan(&c.claims, &c.claimMillis, &c.settles, &c.settleMillis)
	if err != nil {
		return c, fmt.Errorf("read function counters: %w", err)
	}
	return c, nil
}

// usage is what a run cost.
type usage struct {
	took                 time.Duration
	serverCPU, clientCPU time.Duration
	others               time.Duration // CPU time that other work on the machine took meanwhile
	wal                  int64
	statements           int64
	roundTrips           int64
	calls                functionCalls
}

// stop ends the measured time. functions must be called later, when the clients have disconnected.
func (m *meter) stop(ctx context.Context) (usage, error) {
	end, err := m.read(ctx)
	u := usage{
		took: end.at.Sub(m.begin.at), clientCPU: end.clientCPU - m.begin.clientCPU,
		serverCPU: end.serverCPU - m.begin.serverCPU, wal: end.wal - m.begin.wal,
		statements: end.statements - m.begin.statements, roundTrips: end.roundTrips - m.begin.roundTrips,
	}
	if end.serverCPU < 0 {
		u.serverCPU = -1
	}
	u.others = max(0, end.machine-m.begin.machine-u.serverCPU-u.clientCPU)
	if end.machine < 0 {
		u.others = -1
	}
	return u, err
}

// functions adds to u what the server counted of claiming and settling.
func (m *meter) functions(ctx context.Context, u *usage) error {
	if err := m.s.alone(ctx); err != nil {
		return err
	}
	after, err := m.s.functionCalls(ctx)
	u.calls = functionCalls{
		claims: after.claims - m.before.claims, claimMillis: after.claimMillis - m.before.claimMillis,
		settles: after.settles - m.before.settles, settleMillis: after.settleMillis - m.before.settleMillis,
	}
	return err
}

// figures are the costs per message.
func (u usage) figures(messages int) []figure {
	serverCPU, others := math.NaN(), math.NaN()
	if u.serverCPU >= 0 {
		serverCPU = per(u.serverCPU.Seconds(), 100_000, messages)
	}
	if u.others >= 0 {
		others = 100 * u.others.Seconds() / u.took.Seconds() / float64(runtime.NumCPU())
	}
	return []figure{
		{"PG CPU s/100k", serverCPU},
		{"client CPU s/100k", per(u.clientCPU.Seconds(), 100_000, messages)},
		{"WAL B/msg", per(float64(u.wal), 1, messages)},
		{"statements/1k", per(float64(u.statements), 1000, messages)},
		{"round trips/1k", per(float64(u.roundTrips), 1000, messages)},
		{"others' CPU %", others},
	}
}

// callFigures are about claiming and settling.
func (u usage) callFigures(messages int) []figure {
	return []figure{
		{"claims/1k", per(float64(u.calls.claims), 1000, messages)},
		{"claim ms", ratio(u.calls.claimMillis, float64(u.calls.claims))},
		{"settle ms", ratio(u.calls.settleMillis, float64(u.calls.settles))},
	}
}

// cpu is what all processes of the server have used, those that have ended included; negative if unknown.
func (s *server) cpu() time.Duration {
	children, err := devservices.Children(s.postmaster)
	if err != nil {
		return -1
	}
	own, reaped, err := processCPU(s.postmaster)
	if err != nil {
		return -1
	}
	sum := own + reaped
	for _, pid := range children {
		used, _, err := processCPU(pid)
		if err == nil { // else it has just ended, and is among the reaped next time
			sum += used
		}
	}
	return sum
}

// processCPU reads what a process has used, and what its children had used that have ended.
func processCPU(pid int) (own, reaped time.Duration, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, 0, err
	}
	var ticks [4]int64 // utime stime cutime cstime
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * clockTick, time.Duration(ticks[2]+ticks[3]) * clockTick, nil
}

// statFields are those of /proc/<pid>/stat behind the name, which may hold anything.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	s := string(text)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// parentOf is 0 where there is no /proc.
func parentOf(pid int) (int, error) {
	fields, err := statFields(pid)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[1])
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineCPU is how long the machine's CPUs have been busy, together, for whomever; negative if unknown.
func machineCPU() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return -1
	}
	return busy(string(text))
}

// busy adds up the first line of /proc/stat: user nice system idle iowait irq softirq steal, then guests, whose time
// user includes.
func busy(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return -1
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return -1
		}
		sum += ticks
	}
	return time.Duration(sum) * clockTick
}

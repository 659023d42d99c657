// Command bench measures the outbox on this machine: on a private PostgreSQL server, with fsync on, it runs each
// scenario beside a reference line that does the same work by plain SQL, in turns, and prints medians.
//
//	go run ./bench -run drain,publish -json figures.json
//
// A scenario is a file: drain.go, publish.go, latency.go, handlers.go, relays.go, jetstream.go, rabbitmq.go. The figures
// that were measured, and how to read them, are in docs/benchmarks.md. The last one needs RabbitMQ on the machine, and is
// left out without it unless it is asked for by name.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"github.com/outboxrelay/outbox/internal/devservices"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errFaults makes a run with lost, repeated or disordered messages fail, after its figures are printed.
var errFaults = errors.New("messages were lost, repeated or out of order")

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	o, err := parseOptions(args, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not finished within %v", o.limit))
	defer cancel()
	s, err := startServer(ctx, o.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx, o.serverLog)) }()
	stopProfile, err := startProfile(o.cpuProfile)
	if err != nil {
		return err
	}
	b := &bench{server: s, opt: o, log: log}
	rep, err := measure(ctx, b)
	if err := errors.Join(err, b.close(), stopProfile()); err != nil {
		return err
	}
	rep.print(out)
	if err := rep.save(o.json); err != nil {
		return err
	}
	if rep.faults() > 0 {
		return errFaults
	}
	return nil
}

// measure runs the chosen scenarios one after another.
func measure(ctx context.Context, b *bench) (*report, error) {
	rep, err := newReport(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, sc := range scenarios() {
		if !b.opt.chosen(sc.name) {
			continue
		}
		results, err := b.rounds(ctx, sc)
		if errors.Is(err, devservices.ErrNotInstalled) && len(b.opt.run) == 0 {
			fmt.Fprintf(b.log, "scenario %s is left out: %v\n", sc.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", sc.name, err)
		}
		rep.Results = append(rep.Results, results...)
	}
	return rep, nil
}

// startProfile profiles this process, hence the relays, into the file if there is to be one.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

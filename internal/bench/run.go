package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// ErrFaults makes a run with lost, repeated or disordered messages fail, after its figures are printed.
var ErrFaults = errors.New("messages were lost, repeated or out of order")

// Main is a program that measures these scenarios. It returns the exit code.
func Main(scenarios []Scenario) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, scenarios, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// Run measures what the arguments choose, on a private server, and prints tables.
func Run(ctx context.Context, scenarios []Scenario, args []string, out, log io.Writer) (err error) {
	o, err := parseOptions(args, scenarios, log)
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
	backend, err := openBackend(s, o.engine)
	if err != nil {
		return err
	}
	if c, ok := backend.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	stopProfile, err := startProfile(o.cpuProfile)
	if err != nil {
		return err
	}
	rep, err := measure(ctx, &Bed{Server: s, Options: o, Log: log, backend: backend}, scenarios)
	err = errors.Join(err, stopProfile())
	if rep == nil {
		return err
	}
	rep.print(out, scenarios) // also what was finished before an error: it took long enough
	err = errors.Join(err, rep.save(o.json))
	if rep.faults() > 0 {
		err = errors.Join(err, ErrFaults)
	}
	return err
}

// measure runs the chosen scenarios one after another. With an error it returns those that it has finished, or nil.
func measure(ctx context.Context, b *Bed, scenarios []Scenario) (*Report, error) {
	rep, err := newReport(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, sc := range scenarios {
		if !b.chosen(sc.Name) {
			continue
		}
		results, err := b.rounds(ctx, sc)
		if sc.End != nil {
			err = errors.Join(err, sc.End())
		}
		if err != nil {
			return rep, fmt.Errorf("scenario %s: %w", sc.Name, err)
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

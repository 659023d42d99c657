package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options are what the command line says, with defaults filled in.
type options struct {
	run        []string // scenarios; empty: all
	rows       int
	reps       int
	short      bool
	publishFor time.Duration // of each case and round
	latencyFor time.Duration
	rate       int // messages per second of the latency scenario
	limit      time.Duration
	json       string
	cpuProfile string
	serverLog  string
	settings   map[string]string
}

func parseOptions(args []string, log io.Writer) (options, error) {
	o := options{settings: map[string]string{}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(log)
	fs.Func("run", "scenarios, separated by commas: "+strings.Join(scenarioNames(), ", ")+" (default all)", o.setRun)
	fs.IntVar(&o.rows, "rows", 0, "messages of a backlog (default 200000, 50000 with -short)")
	fs.IntVar(&o.reps, "reps", 0, "rounds; medians are of so many runs (default 5, 3 with -short)")
	fs.BoolVar(&o.short, "short", false, "fewer rounds, smaller backlogs, shorter runs")
	fs.DurationVar(&o.publishFor, "publish-for", 0, "time of each publish run (default 3s, 1s with -short)")
	fs.DurationVar(&o.latencyFor, "latency-for", 0, "time of each latency run (default 20s, 5s with -short)")
	fs.IntVar(&o.rate, "rate", 300, "messages per second of the latency runs")
	fs.DurationVar(&o.limit, "limit", 20*time.Minute, "give up after this time")
	fs.StringVar(&o.json, "json", "", "write all figures to this `file`")
	fs.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to this `file`")
	fs.StringVar(&o.serverLog, "serverlog", "", "write the server's log to this `file`")
	fs.Func("set", "a `name=value` of the server's configuration; may be repeated", o.set)
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, o.complete()
}

func (o *options) setRun(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(scenarioNames(), name) {
			return fmt.Errorf("no scenario %q; there are %s", name, strings.Join(scenarioNames(), ", "))
		}
		o.run = append(o.run, name)
	}
	return nil
}

func (o *options) set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not of the form name=value", text)
	}
	o.settings[name] = value
	return nil
}

// complete fills in defaults and checks what cannot be measured.
func (o *options) complete() error {
	rows, reps, publishFor, latencyFor := 200_000, 5, 3*time.Second, 20*time.Second
	if o.short {
		rows, reps, publishFor, latencyFor = 50_000, 3, time.Second, 5*time.Second
	}
	o.rows, o.reps = cmp.Or(o.rows, rows), cmp.Or(o.reps, reps)
	o.publishFor, o.latencyFor = cmp.Or(o.publishFor, publishFor), cmp.Or(o.latencyFor, latencyFor)
	for _, n := range []struct {
		flag       string
		value, low int64
	}{
		{"rows", int64(o.rows), 1000}, {"reps", int64(o.reps), 1}, {"rate", int64(o.rate), 1},
		{"publish-for", int64(o.publishFor), 1}, {"latency-for", int64(o.latencyFor), 1}, {"limit", int64(o.limit), 1},
	} {
		if n.value < n.low {
			return fmt.Errorf("-%s is %d, must be at least %d", n.flag, n.value, n.low)
		}
	}
	return nil
}

func (o *options) chosen(scenario string) bool {
	return len(o.run) == 0 || slices.Contains(o.run, scenario)
}

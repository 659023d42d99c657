package bench

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options are what the command line says, with defaults filled in.
type Options struct {
	Rows        int
	Reps        int
	Short       bool
	Large       bool          // backlogs that take minutes to fill
	PublishFor  time.Duration // of each case and round
	LatencyFor  time.Duration
	IdleFor     time.Duration
	Stall       time.Duration // nothing may be settled for so long, else the rest counts as lost
	MessageRate int           // messages per second of the latency scenario

	run        []string // scenarios; empty: all
	cases      *regexp.Regexp
	repsAsked  bool // for so many rounds, also of scenarios that have fewer by themselves
	engine     string
	limit      time.Duration
	json       string
	cpuProfile string
	serverLog  string
	settings   map[string]string
}

// parseOptions reads the command line of a program with these scenarios.
func parseOptions(args []string, scenarios []Scenario, log io.Writer) (Options, error) {
	o := Options{settings: map[string]string{}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(log)
	names := namesOf(scenarios)
	fs.Func("run", "scenarios, separated by commas: "+strings.Join(names, ", ")+" (default all)", func(list string) error { return o.setRun(list, names) })
	fs.Func("case", "only cases whose names match this `regexp`; what they are compared with may be missing", o.setCases)
	fs.IntVar(&o.Rows, "rows", 0, "messages of a backlog (default 200000, 50000 with -short)")
	fs.IntVar(&o.Reps, "reps", 0, "rounds; medians are of so many runs (default 5, 3 with -short, fewer in some scenarios)")
	fs.BoolVar(&o.Short, "short", false, "fewer rounds, smaller backlogs, shorter runs")
	fs.BoolVar(&o.Large, "large", false, "a backlog of 10 million as well, in the scenario that has backlogs by size")
	fs.DurationVar(&o.PublishFor, "publish-for", 0, "time of each publish run (default 3s, 1s with -short)")
	fs.DurationVar(&o.LatencyFor, "latency-for", 0, "time of each latency run (default 20s, 5s with -short)")
	fs.DurationVar(&o.IdleFor, "idle-for", 0, "time of each idle run (default 10s, 3s with -short)")
	fs.IntVar(&o.MessageRate, "rate", 300, "messages per second of the latency runs")
	fs.StringVar(&o.engine, "engine", engines()[0].Name, "how relays find messages: "+strings.Join(engineNames(), ", "))
	fs.DurationVar(&o.Stall, "stall", 30*time.Second, "what is not settled although nothing else has been for this time counts as lost")
	fs.DurationVar(&o.limit, "limit", time.Hour, "give up after this time")
	fs.StringVar(&o.json, "json", "", "write all figures to this `file`")
	fs.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to this `file`")
	fs.StringVar(&o.serverLog, "serverlog", "", "write the server's log to this `file`")
	fs.Func("set", "a `name=value` of the server's configuration; may be repeated", o.set)
	if err := fs.Parse(args); err != nil {
		return Options{}, err
	}
	if fs.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, o.complete()
}

func namesOf(scenarios []Scenario) (names []string) {
	for _, sc := range scenarios {
		names = append(names, sc.Name)
	}
	return names
}

func (o *Options) setRun(list string, names []string) error {
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no scenario %q; there are %s", name, strings.Join(names, ", "))
		}
		o.run = append(o.run, name)
	}
	return nil
}

func (o *Options) set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not of the form name=value", text)
	}
	o.settings[name] = value
	return nil
}

func (o *Options) setCases(pattern string) (err error) {
	o.cases, err = regexp.Compile(pattern)
	return err
}

// complete fills in defaults and checks what cannot be measured.
func (o *Options) complete() error {
	rows, reps, publishFor, latencyFor, idleFor := 200_000, 5, 3*time.Second, 20*time.Second, 10*time.Second
	if o.Short {
		rows, reps, publishFor, latencyFor, idleFor = 50_000, 3, time.Second, 5*time.Second, 3*time.Second
	}
	o.repsAsked = o.Reps > 0
	o.Rows, o.Reps = cmp.Or(o.Rows, rows), cmp.Or(o.Reps, reps)
	o.PublishFor, o.LatencyFor, o.IdleFor = cmp.Or(o.PublishFor, publishFor), cmp.Or(o.LatencyFor, latencyFor), cmp.Or(o.IdleFor, idleFor)
	if !slices.Contains(engineNames(), o.engine) {
		return fmt.Errorf("-engine is %q, must be one of %s", o.engine, strings.Join(engineNames(), ", "))
	}
	var errs []error
	for _, n := range []struct {
		flag       string
		value, low int64
	}{
		{"rows", int64(o.Rows), 1000}, {"reps", int64(o.Reps), 1}, {"rate", int64(o.MessageRate), 1},
		{"publish-for", int64(o.PublishFor), 1}, {"latency-for", int64(o.LatencyFor), 1}, {"idle-for", int64(o.IdleFor), 1},
		{"limit", int64(o.limit), 1}, {"stall", int64(o.Stall), 1},
	} {
		if n.value < n.low {
			errs = append(errs, fmt.Errorf("-%s is %d, must be at least %d", n.flag, n.value, n.low))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) chosen(scenario string) bool {
	return len(o.run) == 0 || slices.Contains(o.run, scenario)
}

func (o *Options) chosenCase(name string) bool { return o.cases == nil || o.cases.MatchString(name) }

// roundsOf returns how often a scenario is run.
func (o *Options) roundsOf(sc Scenario) int {
	if sc.Rounds > 0 && !o.repsAsked {
		return min(o.Reps, sc.Rounds)
	}
	return o.Reps
}

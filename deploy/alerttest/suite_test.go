package alerttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

// suite is a file of cases in promtool's form, as much of it as ours uses.
type suite struct {
	RuleFiles []string   `yaml:"rule_files"`
	Interval  duration   `yaml:"evaluation_interval"`
	Tests     []testCase `yaml:"tests"`
}

type testCase struct {
	Name     string        `yaml:"name"`
	Interval duration      `yaml:"interval"`
	Input    []inputSeries `yaml:"input_series"`
	Alerts   []alertCase   `yaml:"alert_rule_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// alertCase is what a rule does at a time: the alerts that fire.
type alertCase struct {
	At     duration   `yaml:"eval_time"`
	Alert  string     `yaml:"alertname"`
	Expect []expected `yaml:"exp_alerts"`
}

type expected struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// duration is written as Prometheus does.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := model.ParseDuration(n.Value)
	*d = duration(parsed)
	return err
}

func readSuite(t testing.TB) (s suite) {
	t.Helper()
	text, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil {
		t.Fatalf("%s: %v", casesFile, err)
	}
	return s
}

// of are the cases of one rule.
func (s *suite) of(alert string) suite {
	some := *s
	some.Tests = slices.DeleteFunc(slices.Clone(s.Tests), func(tc testCase) bool {
		return !slices.ContainsFunc(tc.Alerts, func(a alertCase) bool { return a.Alert == alert })
	})
	return some
}

// run returns what rules do otherwise than the cases say.
func (s *suite) run(t testing.TB, file string) (problems []string) {
	t.Helper()
	for i := range s.Tests {
		tc := &s.Tests[i]
		for _, problem := range tc.run(t, file, time.Duration(s.Interval)) {
			problems = append(problems, tc.Name+": "+problem)
		}
	}
	return problems
}

// run evaluates the rules from the first sample on, as a server does, and compares what fires.
func (tc *testCase) run(t testing.TB, file string, every time.Duration) (problems []string) {
	t.Helper()
	samples, err := promqltest.NewLazyLoader(tc.load(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatalf("%s: %v", tc.Name, err)
	}
	defer samples.Close()
	groups := loadGroups(t, samples, file, every)
	last := slices.MaxFunc(tc.Alerts, func(a, b alertCase) int { return int(a.At - b.At) }).At
	begin := time.Unix(0, 0).UTC()
	for at := time.Duration(0); at <= time.Duration(last); at += every {
		samples.WithSamplesTill(begin.Add(at), func(err error) {
			if err != nil {
				t.Fatalf("%s: %v", tc.Name, err)
			}
			for _, g := range groups {
				g.Eval(samples.Context(), begin.Add(at))
			}
		})
		for _, a := range tc.Alerts {
			if time.Duration(a.At) == at {
				problems = append(problems, a.compare(groups)...)
			}
		}
	}
	return problems
}

// load is the input in the language of promqltest.
func (tc *testCase) load() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", model.Duration(tc.Interval))
	for _, s := range tc.Input {
		fmt.Fprintf(&b, "  %s %s\n", s.Series, s.Values)
	}
	return b.String()
}

func loadGroups(t testing.TB, samples *promqltest.LazyLoader, file string, every time.Duration) (groups []*rules.Group) {
	t.Helper()
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(samples.QueryEngine(), samples.Storage()),
		Appendable: samples.Storage(),
		Context:    t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	byName, errs := m.LoadGroups(every, labels.EmptyLabels(), "", nil, false, file)
	if errs != nil {
		t.Fatalf("%s: %v", file, errs)
	}
	return slices.Collect(maps.Values(byName))
}

// compare tells what of the alert fires that should not, and the other way round.
func (a *alertCase) compare(groups []*rules.Group) (problems []string) {
	var got, want []string
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			if r.LastError() != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", r.Name(), r.LastError()))
			}
			if r.Name() != a.Alert {
				continue
			}
			for _, active := range r.ActiveAlerts() {
				if active.State == rules.StateFiring {
					got = append(got, firing(active.Labels.Map(), active.Annotations.Map()))
				}
			}
		}
	}
	for _, e := range a.Expect {
		all := maps.Clone(e.Labels)
		all["alertname"] = a.Alert
		want = append(want, firing(all, e.Annotations))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		problems = append(problems, fmt.Sprintf("after %s of %s fires\n%swant\n%s", model.Duration(a.At), a.Alert, strings.Join(got, ""), strings.Join(want, "")))
	}
	return problems
}

func firing(labels, annotations map[string]string) string {
	return fmt.Sprintf("\t%v\n\t%v\n", labels, annotations)
}

// rule is what the checks need of one.
type rule struct {
	series []string // of its expression
}

func readRules(t testing.TB, path string) map[string]rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]rule{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = rule{seriesOf(t, r.Expr)}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return all
}

func seriesOf(t testing.TB, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok && !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

// uncovered are the rules without a case that fires, or without one that is silent although there is something to look at.
func (s *suite) uncovered(all map[string]rule) (problems []string) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, tc := range s.Tests {
		for _, a := range tc.Alerts {
			switch {
			case len(a.Expect) > 0:
				fires[a.Alert] = true
			case tc.has(all[a.Alert].series):
				silent[a.Alert] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !fires[name] {
			problems = append(problems, name+" fires in no case")
		}
		if !silent[name] {
			problems = append(problems, name+" is silent in no case")
		}
	}
	return problems
}

// has reports whether there is input for one of the series.
func (tc *testCase) has(names []string) bool {
	return slices.ContainsFunc(tc.Input, func(s inputSeries) bool {
		name, _, _ := strings.Cut(s.Series, "{")
		return slices.Contains(names, name)
	})
}

// unknown is the input that no daemon exposes, or no scrape has brought.
func (s *suite) unknown(known []string) (problems []string) {
	for _, tc := range s.Tests {
		for _, in := range tc.Input {
			name, names, err := parseSeries(in.Series)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", tc.Name, err))
				continue
			}
			own := slices.DeleteFunc(slices.Clone(names), func(l string) bool { return l == "instance" || l == "job" })
			if !slices.Contains(known, name+"{"+strings.Join(own, ",")+"}") {
				problems = append(problems, fmt.Sprintf("%s: %s{%s} is not exposed", tc.Name, name, strings.Join(own, ",")))
			}
			for _, l := range []string{"instance", "job"} {
				if !slices.Contains(names, l) {
					problems = append(problems, fmt.Sprintf("%s: %s has no label %s", tc.Name, in.Series, l))
				}
			}
		}
	}
	return problems
}

func parseSeries(text string) (name string, names []string, err error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseMetric(text)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", text, err)
	}
	all := parsed.Map()
	name = all["__name__"]
	delete(all, "__name__")
	return name, slices.Sorted(maps.Keys(all)), nil
}

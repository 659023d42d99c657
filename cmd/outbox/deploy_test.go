package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile    = "../../deploy/alerts.yaml"
	dashboardFile = "../../deploy/grafana.json"
	runbook       = "../../docs/operations.md"
	// seriesFile lists what a daemon exposes, for the tests of the alerts, which are a module of their own.
	seriesFile = "../../deploy/alerttest/testdata/series.txt"
)

// exposed are the labels of each series that a daemon has.
type exposed map[string][]string

// scraped are the labels that a scrape adds.
var scraped = [...]string{"instance", "job"}

// exposition is what a daemon exposes, with the labels that Prometheus adds to each series.
func exposition(t *testing.T) exposed {
	t.Helper()
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+migrated(t))
	var text string
	eventually(t, "it has looked at the outbox", func() bool {
		_, text = d.get(t, "/metrics")
		return strings.Contains(text, "outbox_ready ")
	})
	all := exposed{}
	for name, family := range parseMetrics(t, text) {
		labels := slices.Clone(scraped[:])
		for _, m := range family.Metric {
			for _, l := range m.Label {
				labels = append(labels, l.GetName())
			}
		}
		if family.Metric[0].Histogram == nil {
			all[name] = labels
			continue
		}
		all[name+"_sum"], all[name+"_count"], all[name+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
	}
	return all
}

// list writes the outbox's own series, one a line, with the labels that they have before a scrape: outbox_dead{} has none.
func (e exposed) list() string {
	var lines []string
	for name, labels := range e {
		if strings.HasPrefix(name, "outbox_") {
			own := slices.Compact(slices.Sorted(slices.Values(labels[len(scraped):])))
			lines = append(lines, fmt.Sprintf("%s{%s}\n", name, strings.Join(own, ",")))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// problems is what is wrong with an expression: its form, series that nobody exposes, labels that these do not have.
func (e exposed) problems(expr string) (problems []string) {
	parsed, err := metricsql.Parse(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var labels []string // of all series of the expression
	metricsql.VisitAll(parsed, func(x metricsql.Expr) {
		m, ok := x.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, filters := range m.LabelFilterss {
			name := filters[0].Value
			if filters[0].Label != "__name__" || e[name] == nil {
				problems = append(problems, fmt.Sprintf("%s: nothing exposes %s", expr, name))
				continue
			}
			labels = append(labels, e[name]...)
			for _, f := range filters[1:] {
				if !slices.Contains(e[name], f.Label) {
					problems = append(problems, fmt.Sprintf("%s: %s has no label %s", expr, name, f.Label))
				}
			}
		}
	})
	metricsql.VisitAll(parsed, func(x metricsql.Expr) {
		if a, ok := x.(*metricsql.AggrFuncExpr); ok {
			for _, l := range a.Modifier.Args {
				if !slices.Contains(labels, l) {
					problems = append(problems, fmt.Sprintf("%s: no series has the label %s", expr, l))
				}
			}
		}
	})
	return problems
}

// legend are labels that a text is made of.
var legend = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)

// shown finds the labels of a text that an expression's results do not have.
func shown(expr, text string) (problems []string) {
	for _, match := range legend.FindAllStringSubmatch(text, -1) {
		aggregated := strings.Contains(expr, " by (")
		if aggregated && !regexp.MustCompile(`by \([^)]*\b`+match[1]+`\b`).MatchString(expr) {
			problems = append(problems, fmt.Sprintf("%s: the text %q shows the label %s, which is aggregated away", expr, text, match[1]))
		}
	}
	return problems
}

type alertFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// alertProblems checks the rules against what is exposed and what the runbook has.
func alertProblems(e exposed, text, runbook string) (problems []string) {
	var file alertFile
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return []string{err.Error()}
	}
	sections := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^### (Outbox\w+)$`).FindAllStringSubmatch(runbook, -1) {
		sections[match[1]] = true
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			problems = append(problems, e.problems(r.Expr)...)
			problems = append(problems, shown(r.Expr, r.Annotations["summary"])...)
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operations.md#"+strings.ToLower(r.Alert)) || !sections[r.Alert] {
				problems = append(problems, r.Alert+": the runbook has no such part, or the rule does not name it")
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				problems = append(problems, r.Alert+": no severity or no summary")
			}
			delete(sections, r.Alert)
		}
	}
	for name := range sections {
		problems = append(problems, name+": the runbook tells of an alert that there is not")
	}
	return problems
}

func dashboardProblems(e exposed, text string) (problems []string) {
	var d struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return []string{err.Error()}
	}
	panels := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			problems = append(problems, e.problems(target.Expr)...)
			problems = append(problems, shown(target.Expr, target.LegendFormat)...)
		}
		if p.Type != "row" {
			panels++
			if len(p.Targets) == 0 || p.Title == "" {
				problems = append(problems, fmt.Sprintf("panel %q shows nothing", p.Title))
			}
		}
	}
	if panels == 0 {
		problems = append(problems, "no panels")
	}
	return problems
}

func file(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDeployedExpressions: dashboard and alerts name what a daemon exposes, and every alert has its part of the runbook.
// What it exposes is listed for the tests that evaluate the alerts. Faults that are planted are found.
func TestDeployedExpressions(t *testing.T) {
	t.Parallel()
	e := exposition(t)
	if *update {
		write(t, seriesFile, e.list())
	} else if want := file(t, seriesFile); e.list() != want {
		t.Errorf("a daemon exposes\n%swant, as %s has it,\n%sgo test -update writes it", e.list(), seriesFile, want)
	}
	alerts, dashboard, book := file(t, alertsFile), file(t, dashboardFile), file(t, runbook)
	for _, problem := range append(alertProblems(e, alerts, book), dashboardProblems(e, dashboard)...) {
		t.Error(problem)
	}
	everywhere := alerts + dashboard
	for _, name := range listedMetrics(t) {
		if !strings.Contains(everywhere, name) {
			t.Errorf("neither dashboard nor alerts show %s", name)
		}
	}
	for _, c := range []struct{ what, old, new, want string }{
		{"alerts", "max(outbox_unhandled)", "max(outbox_unhandeld)", "nothing exposes outbox_unhandeld"},
		{"alerts", "max by (destination) (outbox_breaker_open)", "max by (sink) (outbox_breaker_open)", "no series has the label sink"},
		{"alerts", "max(outbox_unhandled)", `max(outbox_unhandled{topic="a"})`, "outbox_unhandled has no label topic"},
		{"alerts", "max(outbox_unhandled)", "max(outbox_unhandled", "unparsed"},
		{"alerts", "$labels.topic", "$labels.kind", "aggregated away"},
		{"alerts", "#outboxbehind", "#behind", "OutboxBehind: the runbook"},
		{"runbook", "### OutboxBehind\n", "### Behind\n", "OutboxBehind: the runbook"},
		{"runbook", "### OutboxBehind\n", "### OutboxBehind\n\n### OutboxLate\n", "OutboxLate: the runbook tells"},
		{"dashboard", "outbox_commit_to_ack_seconds_bucket", "outbox_commit_to_ack_bucket", "nothing exposes outbox_commit_to_ack_bucket"},
		{"dashboard", `"{{state}}"`, `"{{kind}}"`, "aggregated away"},
	} {
		texts := map[string]string{"alerts": alerts, "dashboard": dashboard, "runbook": book}
		if !strings.Contains(texts[c.what], c.old) {
			t.Errorf("%s has no %q to replace", c.what, c.old)
		}
		texts[c.what] = strings.ReplaceAll(texts[c.what], c.old, c.new)
		found := append(alertProblems(e, texts["alerts"], texts["runbook"]), dashboardProblems(e, texts["dashboard"])...)
		if !slices.ContainsFunc(found, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("with %q: %v, want one with %q", c.new, errors.Join(asErrors(found)...), c.want)
		}
	}
}

func asErrors(texts []string) (errs []error) {
	for _, text := range texts {
		errs = append(errs, errors.New(text))
	}
	return errs
}

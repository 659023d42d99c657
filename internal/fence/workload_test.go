package fence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// workload is a relay as a file in deploy/ starts it.
type workload struct {
	args   []string // after the program
	env    map[string]string
	files  map[string]string // contents by path
	probes [][]string        // commands
	grace  time.Duration     // between the signal to stop and the kill
}

// problems is what the program itself says about a workload: flags, verbs, variables and files that it does not
// take, and a time to stop that ends before its own.
func (w workload) problems(t *testing.T) (problems []string) {
	t.Helper()
	w = w.movedTo(t, t.TempDir())
	if len(w.args) == 0 || w.args[0] != "run" {
		return []string{fmt.Sprintf("the program is called with %q, not with run", w.args)}
	}
	cfg, problem := printedConfig(t, w.env, w.args[1:]...)
	if problem != "" {
		return []string{problem}
	}
	if len(cfg.Destinations) == 0 {
		problems = append(problems, "the relay has no destination")
	}
	text, _ := cfg.value("drain_timeout")
	drain, err := outbox.ParseDuration(text)
	if err != nil || w.grace <= drain {
		problems = append(problems, fmt.Sprintf("it is killed after %s, drain_timeout is %s", w.grace, text))
	}
	problems = append(problems, withoutDatabase(cfg, "run")...)
	for _, probe := range w.probes {
		problems = append(problems, w.probeProblems(t, probe)...)
	}
	return problems
}

func withoutDatabase(cfg printed, who string) []string {
	_, text := cfg.value("database.url")
	_, file := cfg.value("database.url_file")
	if !text && !file {
		return []string{who + " has no database"}
	}
	return nil
}

// probeProblems looks at a probe, which has the relay's environment and not its flags.
func (w workload) probeProblems(t *testing.T, probe []string) []string {
	t.Helper()
	if len(probe) < 2 || probe[0] != "outbox" || probe[1] != "health" {
		return []string{fmt.Sprintf("the probe %q is not outbox health", probe)}
	}
	if problem := wrongCommand(t, probe[1:]); problem != "" {
		return []string{"probe: " + problem}
	}
	cfg, problem := printedConfig(t, w.env)
	if problem != "" {
		return []string{"probe: " + problem}
	}
	return withoutDatabase(cfg, "the probe")
}

// movedTo writes the files below a folder, and makes everything that names them name them there.
func (w workload) movedTo(t *testing.T, dir string) workload {
	t.Helper()
	var swaps []string
	for path := range w.files {
		swaps = append(swaps, path, filepath.Join(dir, path))
	}
	move := strings.NewReplacer(swaps...).Replace
	for path, text := range w.files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, move(text))
	}
	moved := w
	moved.args = slices.Clone(w.args)
	for i := range moved.args {
		moved.args[i] = move(moved.args[i])
	}
	moved.env = map[string]string{}
	for name, value := range w.env {
		moved.env[name] = move(value)
	}
	return moved
}

// fault is a change of a file that a check must find.
type fault struct{ old, new, want string }

// wantFaults plants faults one after another: the check must name each, and find nothing without them.
func wantFaults(t *testing.T, path string, check func(t *testing.T, text string) []string, faults ...fault) {
	t.Helper()
	text := read(t, path)
	for _, problem := range check(t, text) {
		t.Errorf("%s: %s", path, problem)
	}
	for _, f := range faults {
		t.Run(f.old, func(t *testing.T) {
			if !strings.Contains(text, f.old) {
				t.Fatalf("%s has no %q to replace", path, f.old)
			}
			got := check(t, strings.ReplaceAll(text, f.old, f.new))
			if !slices.ContainsFunc(got, func(problem string) bool { return strings.Contains(problem, f.want) }) {
				t.Errorf("with %q: problems %q, want one with %q", f.new, got, f.want)
			}
		})
	}
}

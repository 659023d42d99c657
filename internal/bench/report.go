package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// Report is everything that was measured, and where.
type Report struct {
	At         time.Time
	Go         string
	CPUs       int
	PostgreSQL string
	Settings   map[string]string // of the server, those that matter here
	Rows       int
	Engine     string
	Results    []Result
}

func newReport(ctx context.Context, b *Bed) (*Report, error) {
	r := &Report{At: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(),
		Settings: map[string]string{}, Rows: b.Rows, Engine: b.engine}
	for name := range serverSettings() {
		r.Settings[name] = ""
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		r.Settings[name] = ""
	}
	for name := range b.settings {
		r.Settings[name] = ""
	}
	for name := range r.Settings {
		value, err := b.setting(ctx, name)
		if err != nil {
			return nil, err
		}
		r.Settings[name] = value
	}
	var err error
	r.PostgreSQL, err = b.setting(ctx, "server_version")
	return r, err
}

func (r *Report) print(out io.Writer, scenarios []Scenario) {
	fmt.Fprintf(out, "%s, %s, PostgreSQL %s, %d CPUs, fsync %s, synchronous_commit %s, engine %s, backlogs of %d messages\n",
		r.At.Format(time.DateTime), r.Go, r.PostgreSQL, r.CPUs, r.Settings["fsync"], r.Settings["synchronous_commit"], r.Engine, r.Rows)
	for _, sc := range scenarios {
		results := slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.Scenario != sc.Name })
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s: %s; medians of %d\n", sc.Name, sc.About, results[0].Runs)
		PrintTable(out, results)
	}
}

// save writes the report as JSON, if there is a file for it.
func (r *Report) save(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func (r *Report) faults() (n int64) {
	for _, x := range r.Results {
		n += x.Lost + x.Duplicates + x.Disorder
	}
	return n
}

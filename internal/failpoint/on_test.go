//go:build failpoint

package failpoint

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	points, err := parse("claim.sent,settle.before:3,beat=20ms,commit:2=1s", nil)
	if err != nil || len(points) != 4 {
		t.Fatalf("%v, %v", points, err)
	}
	for name, want := range map[string]struct {
		nth  int64
		wait time.Duration
	}{"claim.sent": {1, 0}, "settle.before": {3, 0}, "beat": {1, 20 * time.Millisecond}, "commit": {2, time.Second}} {
		if p := points[name]; p == nil || p.nth != want.nth || p.wait != want.wait {
			t.Errorf("%s: %+v, want %+v", name, p, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ points, want string }{
		{"a:0", `time "0"`}, {"a:x", `time "x"`}, {"a=5", `duration "5"`}, {"a=-1s", `duration "-1s"`},
		{":2", "no name"}, {"a,", "no name"},
	} {
		if _, err := parse(c.points, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.points, err, c.want)
		}
	}
	for _, fd := range []string{"", "x", "-1"} {
		if _, err := open(fd); err == nil || !strings.Contains(err.Error(), FDEnv) {
			t.Errorf("file %q: got %v", fd, err)
		}
	}
}

func TestPointActsTheNthTime(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := &point{name: "here", nth: 3, wait: time.Millisecond, out: out}
	for range 5 {
		p.hit()
	}
	out.Close()
	var lines []string
	for s := bufio.NewScanner(in); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if strings.Join(lines, "|") != "reached here" {
		t.Fatalf("lines %q", lines)
	}
}

// The environment is read once in a process, so the points are hit in another one.
func TestHitReadsTheEnvironment(t *testing.T) {
	if os.Getenv(PointsEnv) != "" {
		Hit("elsewhere")
		Hit("here")
		return
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestHitReadsTheEnvironment$")
	child.Env = append(os.Environ(), PointsEnv+"=here=1ms", FDEnv+"=3")
	child.ExtraFiles = []*os.File{out}
	text, err := child.CombinedOutput()
	out.Close()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if lines, err := io.ReadAll(in); err != nil || string(lines) != "reached here\n" {
		t.Fatalf("%q, %v", lines, err)
	}
}

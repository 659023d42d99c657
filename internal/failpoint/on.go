//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Enabled reports whether the program was built with the tag.
const Enabled = true

// Hit marks a point; see the package.
func Hit(name string) {
	if p := fromEnvironment()[name]; p != nil {
		p.hit()
	}
}

// point acts the nth time it is hit.
type point struct {
	name string
	nth  int64
	wait time.Duration // zero: until killed
	out  *os.File

	hits atomic.Int64
}

// The environment belongs to the process and so do its points: a Hit deep in the code has nobody to ask.
var fromEnvironment = sync.OnceValue(func() map[string]*point {
	points := os.Getenv(PointsEnv)
	if points == "" {
		return nil
	}
	out, err := open(os.Getenv(FDEnv))
	if err != nil {
		panic(err) // a test that waits for a point must not run without it
	}
	parsed, err := parse(points, out)
	if err != nil {
		panic(err)
	}
	return parsed
})

func open(fd string) (*os.File, error) {
	number, err := strconv.ParseUint(fd, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s %q: must be the number of an open file", FDEnv, fd)
	}
	return os.NewFile(uintptr(number), FDEnv), nil
}

func parse(points string, out *os.File) (map[string]*point, error) {
	parsed := map[string]*point{}
	for text := range strings.SplitSeq(points, ",") {
		p, err := parsePoint(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", PointsEnv, text, err)
		}
		p.out = out
		parsed[p.name] = p
	}
	return parsed, nil
}

func parsePoint(text string) (p *point, err error) {
	p = &point{nth: 1}
	rest, wait, timed := strings.Cut(text, "=")
	if timed {
		if p.wait, err = time.ParseDuration(wait); err != nil || p.wait <= 0 {
			return nil, fmt.Errorf("duration %q: must be above 0, such as 100ms", wait)
		}
	}
	name, nth, counted := strings.Cut(rest, ":")
	if counted {
		if p.nth, err = strconv.ParseInt(nth, 10, 64); err != nil || p.nth < 1 {
			return nil, fmt.Errorf("time %q: must be a number from 1", nth)
		}
	}
	if name == "" {
		return nil, fmt.Errorf("the point has no name")
	}
	p.name = name
	return p, nil
}

func (p *point) hit() {
	if p.hits.Add(1) != p.nth {
		return
	}
	if _, err := p.out.WriteString(Reached(p.name) + "\n"); err != nil {
		panic(fmt.Errorf("%s: %w", FDEnv, err))
	}
	if p.wait > 0 {
		time.Sleep(p.wait)
		return
	}
	for {
		time.Sleep(time.Hour) // not select {}: that is reported as a deadlock when all other goroutines wait too
	}
}

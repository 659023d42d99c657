package demo

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	terminalInterval = 150 * time.Millisecond
	sparseInterval   = 2 * time.Second
)

// progress tells what happens: lines that stay, and below them one that changes, on a terminal; elsewhere that one is
// written now and then. One goroutine uses it.
type progress struct {
	w        io.Writer
	interval time.Duration // between two states of the changing line
	terminal bool
	open     bool // the changing line is there
	shown    time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, interval: sparseInterval, shown: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if p.terminal {
		p.interval = terminalInterval
	}
	return p
}

const clearLine = "\r\x1b[K"

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// show writes the changing line, if it is time for that.
func (p *progress) show(format string, args ...any) {
	if time.Since(p.shown) < p.interval {
		return
	}
	p.shown = time.Now()
	if !p.terminal {
		fmt.Fprintf(p.w, format+"\n", args...)
		return
	}
	p.clear()
	fmt.Fprintf(p.w, format, args...)
	p.open = true
}

// clear removes the changing line.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, clearLine)
	}
	p.open = false
}

package demo

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	terminalInterval = 150 * time.Millisecond
	sparseInterval   = 2 * time.Second
)

// progress tells what happens: lines that stay, and below them one that changes, on a terminal; elsewhere that one is
// written now and then.
type progress struct {
	w        io.Writer
	terminal bool

	mu   sync.Mutex
	open bool // the changing line is there
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) interval() time.Duration {
	if p.terminal {
		return terminalInterval
	}
	return sparseInterval
}

const clearLine = "\r\x1b[K"

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// show writes the changing line.
func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		fmt.Fprintf(p.w, format+"\n", args...)
		return
	}
	p.clear()
	fmt.Fprintf(p.w, format, args...)
	p.open = true
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, clearLine)
	}
	p.open = false
}

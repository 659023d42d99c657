package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Control sequences, as every terminal of the last thirty years has them.
const (
	screenBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the other screen, no cursor, no wrapping
	screenEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n" // what was there before is gone
	restEnd     = "\x1b[J"
)

// screen is a terminal that shows pictures, and afterwards is as it was.
type screen struct {
	to   io.Writer
	size func() (width, height int)
}

// newScreen returns nil when there is no terminal.
func newScreen(to io.Writer) *screen {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &screen{to, func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width == 0 || height == 0 {
			return 80, 24
		}
		return width, height
	}}
}

func (s *screen) begin() { _, _ = io.WriteString(s.to, screenBegin) }
func (s *screen) end()   { _, _ = io.WriteString(s.to, screenEnd) }

// show draws a picture over the last one, as far as it fits.
func (s *screen) show(lines []string) error {
	width, height := s.size()
	var b strings.Builder
	b.WriteString(screenHome)
	for i, line := range lines {
		if i == height-1 {
			break
		}
		if runes := []rune(harmless(line)); len(runes) > width {
			line = string(runes[:width])
		} else {
			line = string(runes)
		}
		b.WriteString(line + lineEnd)
	}
	b.WriteString(restEnd)
	_, err := io.WriteString(s.to, b.String())
	return err
}

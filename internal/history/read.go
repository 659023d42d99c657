package history

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReadDir reads all logs of a history's directory, in the order of their times. Of a log that is still being
// written it reads what is there when it begins.
func ReadDir(dir string) ([]Event, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var events []Event
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), fileSuffix) {
			continue
		}
		more, err := readFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	sortByTime(events)
	return events, nil
}

func readFile(path string) ([]Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	// Without a bound a writer that is faster than this reader would keep it from ever reaching the end.
	events, err := Read(io.LimitReader(file, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return events, nil
}

// Read reads the log of one process in the order in which it was written. What follows the last line break is
// the event during whose write the process was killed; it is left out. Anything else that is no event is an
// error that names its line.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	in := bufio.NewReaderSize(r, 1<<16)
	lines := decoder{strings: map[string]string{}}
	for number := 1; ; number++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		e, err := lines.event(line)
		if err != nil {
			return nil, fmt.Errorf("read history: line %d: %w", number, err)
		}
		events = append(events, e)
	}
}

// readLine returns a line, which is good until the next one is read. io.EOF: there is no whole one.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	start := bytes.Clone(line)
	end, err := in.ReadBytes('\n')
	return append(start, end...), err
}

func (d decoder) event(line []byte) (Event, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return Event{}, errors.New("is empty")
	}
	e, err := d.decode(line)
	if err != nil {
		return Event{}, err
	}
	return e, e.check()
}

// sortByTime keeps the order of events of the same time, so that a process's own order stays.
func sortByTime(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
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
	same := interner{}
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		e, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("read history: line %d: %w", number, err)
		}
		same.share(&e)
		events = append(events, e)
	}
}

func parse(line []byte) (Event, error) {
	var e Event
	if len(bytes.TrimSpace(line)) == 0 {
		return e, errors.New("is empty")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	return e, e.check()
}

// sortByTime keeps the order of events of the same time, so that a process's own order stays.
func sortByTime(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

// interner keeps one copy of the strings that repeat in a log.
type interner map[string]string

func (in interner) share(e *Event) {
	for _, s := range []*string{(*string)(&e.Kind), &e.Process, &e.Relay, &e.Message, &e.Topic, &e.Key, &e.Destination, &e.Payload, &e.Outcome} {
		if kept, ok := in[*s]; ok {
			*s = kept
			continue
		}
		in[*s] = *s
	}
}

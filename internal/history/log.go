package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const fileSuffix = ".jsonl"

// Log appends the events of one process to the history: to a file of its own in the history's directory, or to a
// Memory. It may be used by any number of goroutines.
type Log struct {
	process string
	memory  *Memory // instead of the file

	mu     sync.Mutex
	file   *os.File
	failed error
}

// Now is the time that the log's events carry.
func (l *Log) Now() int64 {
	if l.memory != nil {
		return l.memory.now()
	}
	return Now()
}

// Open begins the log of a process in the history's directory, which must exist. The name is that by which
// the harness knows the process; it must not contain a path separator.
func Open(dir, process string) (*Log, error) {
	if process == "" || strings.ContainsAny(process, `/\`) {
		return nil, fmt.Errorf("open history: process name %q must be given and have no path separator", process)
	}
	name := fmt.Sprintf("%s.%d.%d%s", process, os.Getpid(), Now(), fileSuffix)
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &Log{process: process, file: file}, nil
}

// Append writes the events with one write; they are safe from the death of this process when it returns.
// It sets At and Process where they are empty. An error means that the history is incomplete and the test
// must fail; after a failed write every further Append fails, so that nothing is written behind a torn line.
func (l *Log) Append(events ...Event) error {
	if l.memory != nil {
		return l.memory.add(l, events)
	}
	var lines []byte
	for _, e := range events {
		e, err := l.complete(e)
		if err != nil {
			return err
		}
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("append to history: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return l.write(lines)
}

// complete gives the event its time and process, and refuses one that the checker could not make sense of.
func (l *Log) complete(e Event) (Event, error) {
	if e.At == 0 {
		e.At = l.Now()
	}
	if e.Process == "" {
		e.Process = l.process
	}
	if err := e.check(); err != nil {
		return e, fmt.Errorf("append to history: %w", err)
	}
	return e, nil
}

func (l *Log) write(lines []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if _, err := l.file.Write(lines); err != nil {
		l.failed = fmt.Errorf("append to history: %w", err)
	}
	return l.failed
}

// Close ends the log. It returns the first error of Append too.
func (l *Log) Close() error {
	if l.memory != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.failed, os.ErrClosed) {
		return nil
	}
	err := errors.Join(l.failed, l.file.Close())
	l.failed = fmt.Errorf("append to history: %w", os.ErrClosed)
	return err
}

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// clockLibraries are where Debian puts libfaketime.
func clockLibraries() []string {
	return []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1"}
}

// clockLibrary returns the path of libfaketime; it is installed when the machine allows that.
func clockLibrary(ctx context.Context, machine devservices.Machine, patterns []string) (string, error) {
	find := func() string {
		for _, pattern := range patterns {
			if found, _ := filepath.Glob(pattern); len(found) > 0 {
				return found[0]
			}
		}
		return ""
	}
	if find() == "" && machine.MayInstall() {
		if err := machine.Install(ctx, func() bool { return find() != "" }, "libfaketime"); err != nil {
			return "", err
		}
	}
	if path := find(); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("libfaketime %w: install the package \"libfaketime\" (apt-get install libfaketime)", devservices.ErrNotInstalled)
}

// clockEnv begins a command whose process and children have the clock that SetClock sets. Their monotonic clock is the machine's, and so are the times
// of files.
func (s *Server) clockEnv() []string {
	if s.lib == "" {
		return nil
	}
	return []string{"env", "LD_PRELOAD=" + s.lib, "FAKETIME_TIMESTAMP_FILE=" + s.clockFile(), "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"}
}

// SetClock sets the clock of a server of Config.SetClock, running or not, so far ahead of the machine's.
func (s *Server) SetClock(ahead time.Duration) error {
	if s.lib == "" {
		return errors.New("set the clock of postgres: it was not started with Config.SetClock")
	}
	next := s.clockFile() + ".next" // renamed: the server reads it all the time
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.3f\n", ahead.Seconds()), 0o644); err != nil {
		return fmt.Errorf("set the clock of postgres: %w", err)
	}
	if err := os.Rename(next, s.clockFile()); err != nil {
		return fmt.Errorf("set the clock of postgres: %w", err)
	}
	return nil
}

func (s *Server) clockFile() string { return filepath.Join(s.sup.Dir, "clock") }

package pgdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// Pause stops all processes of the server, as a machine that hangs does: connections stay open and nothing answers.
// Pausing a paused server does nothing.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paused) > 0 {
		return nil
	}
	postmaster, err := s.postmaster()
	if err != nil {
		return fmt.Errorf("pause postgres: %w", err)
	}
	// The postmaster first: once stopped, it has no new children.
	if err := s.freeze([]int{postmaster}); err != nil {
		return fmt.Errorf("pause postgres: %w", err)
	}
	children, err := devservices.Children(postmaster)
	if err == nil {
		err = s.freeze(children)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("pause postgres: %w", err), s.thaw())
	}
	return nil
}

// Resume lets a paused server go on; one that is not paused is left alone.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thaw()
}

// freeze notes the processes before it stops them: the supervisor reads the note if this process dies in between.
func (s *Server) freeze(pids []int) error {
	s.paused = slices.Concat(s.paused, pids)
	words := strings.Trim(fmt.Sprint(s.paused), "[]")
	if err := os.WriteFile(s.pausedFile(), []byte(words), 0o644); err != nil {
		return err
	}
	return signal(syscall.SIGSTOP, pids)
}

func (s *Server) thaw() error {
	if len(s.paused) == 0 {
		return nil
	}
	err := errors.Join(signal(syscall.SIGCONT, s.paused), os.Remove(s.pausedFile()))
	s.paused = nil
	if err != nil {
		return fmt.Errorf("resume postgres: %w", err)
	}
	return nil
}

func (s *Server) pausedFile() string { return filepath.Join(s.sup.Dir, "paused") }

// postmaster is the process id of the running server.
func (s *Server) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(first))
}

// signal passes over processes that have ended meanwhile.
func signal(sig syscall.Signal, pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

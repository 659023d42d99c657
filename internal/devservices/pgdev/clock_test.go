package pgdev

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// TestSetClock: sessions see each step at once, those that were there before and new ones, and so they do after a restart.
func TestSetClock(t *testing.T) {
	s := start(t, Config{SetClock: true})
	wantAhead := func(conn *pgx.Conn, want time.Duration) {
		t.Helper()
		seconds, err := strconv.ParseFloat(queryText(t, conn, "select extract(epoch from clock_timestamp())::text"), 64)
		if err != nil {
			t.Fatal(err)
		}
		if ahead := seconds - float64(time.Now().UnixMicro())/1e6; math.Abs(ahead-want.Seconds()) > 5 {
			t.Errorf("the clock is %.1f s ahead, want %v", ahead, want)
		}
	}
	before := connect(t, s.URL("postgres"))
	for _, ahead := range []time.Duration{0, time.Hour, -10 * time.Minute, 30500 * time.Millisecond} {
		if err := s.SetClock(ahead); err != nil {
			t.Fatal(err)
		}
		wantAhead(before, ahead)
		wantAhead(connect(t, s.URL("postgres")), ahead)
	}
	if err := s.Stop(t.Context(), Fast); err != nil {
		t.Fatal(err)
	}
	if err := s.SetClock(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantAhead(connect(t, s.URL("postgres")), -time.Hour)
	if err := start(t, Config{}).SetClock(0); err == nil {
		t.Error("the clock of another server was set")
	}
}

func TestClockLibrary(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "*", "lib.so")
	_, err := clockLibrary(t.Context(), unprivileged(), []string{none})
	if !errors.Is(err, devservices.ErrNotInstalled) {
		t.Errorf("%v", err)
	}
	wantInError(t, err, "apt-get install libfaketime")
	path := filepath.Join(dir, "any", "lib.so")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := clockLibrary(t.Context(), unprivileged(), []string{"/nowhere", none}); got != path || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	root := devservices.Machine{Getenv: func(string) string { return "1" }, Root: true, Log: io.Discard}
	t.Setenv("PATH", fakeApt(t, path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := clockLibrary(t.Context(), root, []string{none}); got != path || err != nil {
		t.Errorf("installed: %s, %v", got, err)
	}
}

// fakeApt is a PATH on which apt-get makes the file.
func fakeApt(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n: >%s\n", path)
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

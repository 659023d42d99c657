package pgdev

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// install puts server programs that do nothing into a folder.
func install(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// emptyMachine has the programs of a minimal system, PostgreSQL not among them, on PATH.
func emptyMachine(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir()
	t.Setenv("PATH", path)
	return path
}

func unprivileged() devservices.Machine {
	return devservices.Machine{Getenv: func(string) string { return "" }, Log: io.Discard}
}

func TestBinariesOfDistribution(t *testing.T) {
	path := emptyMachine(t)
	install(t, path)
	root := t.TempDir()
	for _, version := range []string{"9.6", "14", "15"} {
		install(t, filepath.Join(root, version, "bin"))
	}
	if err := os.MkdirAll(filepath.Join(root, "16", "bin"), 0o755); err != nil { // client only
		t.Fatal(err)
	}
	got, err := binaries(t.Context(), unprivileged(), places{patterns: []string{root + "/*/bin"}})
	if want := filepath.Join(root, "15", "bin"); got != want || err != nil {
		t.Errorf("binaries = %q, %v; want %q", got, err, want)
	}
}

func TestBinariesOfPgConfig(t *testing.T) {
	path := emptyMachine(t)
	dir := filepath.Join(t.TempDir(), "chosen")
	install(t, dir)
	if err := os.WriteFile(filepath.Join(path, "pg_config"), []byte("#!/bin/sh\necho "+dir+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := binaries(t.Context(), unprivileged(), places{}); got != dir || err != nil {
		t.Errorf("binaries = %q, %v; want %q", got, err, dir)
	}
}

func TestBinariesOnPath(t *testing.T) {
	path := emptyMachine(t)
	install(t, path)
	if got, err := binaries(t.Context(), unprivileged(), places{}); got != path || err != nil {
		t.Errorf("binaries = %q, %v; want %q", got, err, path)
	}
}

func TestBinariesNotInstalled(t *testing.T) {
	emptyMachine(t)
	_, err := binaries(t.Context(), unprivileged(), places{})
	if !errors.Is(err, devservices.ErrNotInstalled) {
		t.Errorf("binaries: %v, want %v", err, devservices.ErrNotInstalled)
	}
	wantInError(t, err, "apt-get install postgresql", EnvURL)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

func TestBinariesInstalls(t *testing.T) {
	path := emptyMachine(t)
	root := t.TempDir()
	template := t.TempDir()
	install(t, template)
	apt := "#!/bin/sh\ncase \"$*\" in *install*postgresql*) /bin/mkdir -p " + root + "/15 && /bin/cp -R " + template + " " + root + "/15/bin;; esac\n"
	if err := os.WriteFile(filepath.Join(path, "apt-get"), []byte(apt), 0o755); err != nil {
		t.Fatal(err)
	}
	machine := devservices.Machine{Getenv: func(name string) string { return map[string]string{"CI": "true"}[name] }, Root: true, Log: io.Discard}
	got, err := binaries(t.Context(), machine, places{patterns: []string{root + "/*/bin"}})
	if want := filepath.Join(root, "15", "bin"); got != want || err != nil {
		t.Errorf("binaries = %q, %v; want %q", got, err, want)
	}
}

// chosen are the places that the variable names.
func chosen(dirs ...string) places {
	return placesOf(func(name string) (string, bool) {
		return strings.Join(dirs, string(filepath.ListSeparator)), name == EnvDirs
	})
}

// TestBinariesChosen: a test runs on the server that was asked for, whatever else the machine has.
func TestBinariesChosen(t *testing.T) {
	path := emptyMachine(t)
	install(t, path)
	other, want := filepath.Join(t.TempDir(), "99"), filepath.Join(t.TempDir(), "14")
	install(t, other)
	install(t, want)
	if err := os.WriteFile(filepath.Join(path, "pg_config"), []byte("#!/bin/sh\necho "+other+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := binaries(t.Context(), unprivileged(), chosen(t.TempDir(), want)); got != want || err != nil {
		t.Errorf("binaries = %q, %v; want %q", got, err, want)
	}
}

// TestBinariesChosenInVain: a folder without a server fails the tests instead of skipping them or running them elsewhere.
func TestBinariesChosenInVain(t *testing.T) {
	install(t, emptyMachine(t))
	empty := t.TempDir()
	ci := devservices.Machine{Getenv: func(string) string { return "1" }, Root: true, Log: io.Discard}
	for _, machine := range []devservices.Machine{unprivileged(), ci} {
		got, err := binaries(t.Context(), machine, chosen(empty))
		wantInError(t, err, EnvDirs, empty, "initdb, pg_ctl and postgres")
		if got != "" || errors.Is(err, devservices.ErrNotInstalled) {
			t.Errorf("binaries = %q, %v; want an error that skips no test", got, err)
		}
		if _, err := binaries(t.Context(), machine, chosen("")); !errors.Is(err, devservices.ErrNotInstalled) {
			t.Errorf("binaries of no folder: %v, want %v", err, devservices.ErrNotInstalled)
		}
	}
}

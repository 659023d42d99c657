package pgdev

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// EnvDirs names the variable that chooses the server: its folders, as PATH lists them, are the only ones that are looked
// into. So a test runs on the version that was asked for or not at all; empty, it sees a machine without PostgreSQL.
const EnvDirs = "OUTBOX_TEST_POSTGRES_DIRS"

// places are where server programs are looked for.
type places struct {
	patterns []string
	chosen   bool // by EnvDirs: nowhere else
}

// placesOf are those that the environment names, or those of the distributions, whose packages put server programs
// beside PATH.
func placesOf(lookup func(string) (string, bool)) places {
	if dirs, set := lookup(EnvDirs); set {
		return places{filepath.SplitList(dirs), true}
	}
	return places{patterns: []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // PGDG on Red Hat
		"/usr/libexec/postgresql*",          // Alpine
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew
	}}
}

// binaries returns the folder of initdb, pg_ctl and postgres; it installs PostgreSQL when the machine allows that.
func binaries(ctx context.Context, machine devservices.Machine, in places) (string, error) {
	if dir := in.find(ctx); dir != "" {
		return dir, nil
	}
	if in.chosen && len(in.patterns) > 0 {
		return "", fmt.Errorf("%s=%s: no folder of these has initdb, pg_ctl and postgres: name the one of a server's programs, such as /usr/lib/postgresql/15/bin",
			EnvDirs, strings.Join(in.patterns, string(filepath.ListSeparator)))
	}
	if !in.chosen && machine.MayInstall() {
		installed := func() bool { return in.find(ctx) != "" }
		if err := machine.Install(ctx, installed, "postgresql"); err != nil {
			return "", err
		}
		if dir := in.find(ctx); dir != "" {
			return dir, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL server programs %w: install the package \"postgresql\" (apt-get install postgresql, "+
		"brew install postgresql), or set %s to a server whose user may create databases", devservices.ErrNotInstalled, EnvURL)
}

// Installed reports whether this machine has PostgreSQL's server programs.
func Installed() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return placesOf(os.LookupEnv).find(ctx) != ""
}

func (in places) find(ctx context.Context) string {
	for _, dir := range in.dirs(ctx) {
		if complete(dir) {
			return dir
		}
	}
	return ""
}

// dirs lists pg_config's folder, those of the distribution with the newest version first, and PATH; or what was chosen.
func (in places) dirs(ctx context.Context) (dirs []string) {
	if !in.chosen {
		if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, pattern := range in.patterns {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(versionOf(b), versionOf(a)) })
		dirs = append(dirs, found...)
	}
	if !in.chosen {
		dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	}
	return dirs
}

// versionOf is the last number in a path, 0 without one.
func versionOf(path string) (version float64) {
	digits := func(r rune) bool { return (r < '0' || r > '9') && r != '.' }
	for _, field := range strings.FieldsFunc(path, digits) {
		if v, err := strconv.ParseFloat(field, 64); err == nil {
			version = v
		}
	}
	return version
}

// complete tells a server's folder from that of a client package, which has a pg_config too.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if !executable(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

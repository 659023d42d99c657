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

// EnvDirs names the variable that replaces the folders of packages, as PATH lists them: with it, a test sees a machine
// without PostgreSQL.
const EnvDirs = "OUTBOX_TEST_POSTGRES_DIRS"

// distributionDirs are where packages put PostgreSQL's server programs, which are not on PATH there.
func distributionDirs() []string {
	if dirs, set := os.LookupEnv(EnvDirs); set {
		return filepath.SplitList(dirs)
	}
	return []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // PGDG on Red Hat
		"/usr/libexec/postgresql*",          // Alpine
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew
	}
}

// binaries returns the folder of initdb, pg_ctl and postgres; it installs PostgreSQL when the machine allows that.
func binaries(ctx context.Context, machine devservices.Machine, patterns []string) (string, error) {
	if dir := findBinaries(ctx, patterns); dir != "" {
		return dir, nil
	}
	if machine.MayInstall() {
		installed := func() bool { return findBinaries(ctx, patterns) != "" }
		if err := machine.Install(ctx, installed, "postgresql"); err != nil {
			return "", err
		}
		if dir := findBinaries(ctx, patterns); dir != "" {
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
	return findBinaries(ctx, distributionDirs()) != ""
}

func findBinaries(ctx context.Context, patterns []string) string {
	for _, dir := range candidateDirs(ctx, patterns) {
		if complete(dir) {
			return dir
		}
	}
	return ""
}

// candidateDirs lists pg_config's folder, those of the distribution with the newest version first, and PATH.
func candidateDirs(ctx context.Context, patterns []string) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(versionOf(b), versionOf(a)) })
		dirs = append(dirs, found...)
	}
	return append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
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
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

package pgbouncerdev

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// places are where the program is looked for; distributions put it where only root's PATH leads.
var places = [...]string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"}

// program is an installed PgBouncer.
type program struct {
	path    string
	version string // 1.18.0
}

// find returns the program; it installs PgBouncer when the machine allows that.
func find(ctx context.Context, machine devservices.Machine, places []string) (program, error) {
	if p, ok := installed(ctx, places); ok {
		return p, nil
	}
	if machine.MayInstall() {
		done := func() bool { _, ok := installed(ctx, places); return ok }
		if err := machine.Install(ctx, done, "pgbouncer"); err != nil {
			return program{}, err
		}
		if p, ok := installed(ctx, places); ok {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("PgBouncer %w: install the package \"pgbouncer\" (apt-get install pgbouncer, brew install pgbouncer)",
		devservices.ErrNotInstalled)
}

func installed(ctx context.Context, places []string) (program, bool) {
	for _, place := range places {
		path, err := exec.LookPath(place)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		// PgBouncer 1.18.0, and lines about its libraries.
		if words := strings.Fields(string(out)); err == nil && len(words) > 1 {
			return program{path, words[1]}, true
		}
	}
	return program{}, false
}

// keepsPreparedStatements: from 1.21 on it can.
func (p program) keepsPreparedStatements() bool {
	var major, minor int
	if _, err := fmt.Sscanf(p.version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 1 || major == 1 && minor >= 21
}

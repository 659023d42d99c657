package pgdev

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// seed is the archive of a fresh data folder, kept between runs because initdb takes most of a start. It is one file,
// renamed into its place when complete, so that processes that start together never see a half of it.
type seed struct {
	dir, file string
	account   devservices.Account
}

// newSeed is the archive for this version of initdb and these options.
func newSeed(ctx context.Context, initdb string, options []string, account devservices.Account) (seed, error) {
	out, err := exec.CommandContext(ctx, initdb, "--version").Output()
	if err != nil {
		return seed{}, fmt.Errorf("initdb --version: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s %q", initdb, out, options)
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("outbox-postgres-seed-%d", account.UID))
	return seed{dir: dir, file: filepath.Join(dir, fmt.Sprintf("%x.tar", hash.Sum(nil)[:8])), account: account}, nil
}

// unpack makes the supervisor's folder "data" from the archive; false means that initdb has to.
func (s seed) unpack(ctx context.Context, sup *devservices.Supervisor) bool {
	if !s.account.Owns(s.dir) {
		return false
	}
	if sup.Run(ctx, "tar", "-xf", s.file) == nil {
		return true
	}
	return sup.Run(ctx, "rm", "-rf", "data") != nil
}

// save keeps the folder "data" for the next start. It only saves time, so its failure is nobody's.
func (s seed) save(ctx context.Context, sup *devservices.Supervisor) {
	if sup.Run(ctx, "mkdir", "-p", "-m", "700", s.dir) != nil || !s.account.Owns(s.dir) {
		return
	}
	// Same file system: both folders lie in os.TempDir, so mv renames.
	if sup.Run(ctx, "tar", "-cf", "seed.tar", "data") == nil {
		_ = sup.Run(ctx, "mv", "-f", "seed.tar", s.file)
	}
}

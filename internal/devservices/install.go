package devservices

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNotInstalled is the condition that a service's program is not on this machine. The error's text says what to
// install. A test skips then, unless the variable CI is set: there it fails, so that green means run.
var ErrNotInstalled = errors.New("not installed")

// Machine is what locating and installing programs depends on; the zero value is not useful, see ThisMachine.
type Machine struct {
	Getenv func(string) string
	Root   bool
	Log    io.Writer // progress of installations
}

// ThisMachine describes the machine and the process as they are.
func ThisMachine() Machine {
	return Machine{Getenv: os.Getenv, Root: os.Getuid() == 0, Log: os.Stderr}
}

// CI reports whether the tests run in continuous integration.
func (m Machine) CI() bool { return truthy(m.Getenv("CI")) }

// MayInstall reports whether installing system packages is wanted and possible: as root, in continuous integration or
// with OUTBOX_TEST_INSTALL=1.
func (m Machine) MayInstall() bool {
	return m.Root && (m.CI() || truthy(m.Getenv("OUTBOX_TEST_INSTALL")))
}

func truthy(value string) bool { return value != "" && value != "0" && value != "false" }

// Install installs system packages with apt-get. Processes that run at the same time take turns, and installed is
// asked again in between: it reports whether there is nothing left to do.
func (m Machine) Install(ctx context.Context, installed func() bool, packages ...string) error {
	unlock, err := lockFile(filepath.Join(os.TempDir(), fmt.Sprintf("outbox-install-%d.lock", os.Getuid())))
	if err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(packages, ", "), err)
	}
	defer unlock()
	if installed() {
		return nil
	}
	fmt.Fprintf(m.Log, "installing %s\n", strings.Join(packages, ", "))
	if err := m.apt(ctx, "update"); err != nil {
		return err
	}
	return m.apt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
}

func (m Machine) apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastLines(string(out), 20))
	}
	return nil
}

// lockFile takes an exclusive lock that ends with the process at the latest.
func lockFile(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f.Close, nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

package rabbitdev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// places are folders of RabbitMQ's own scripts. Debian's /usr/sbin/rabbitmq-server is not one of them: it changes the
// account and the folder.
var places = []string{
	"/usr/lib/rabbitmq/bin", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin", "/opt/rabbitmq/sbin",
	"/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin", "/usr/local/sbin",
}

// program is an installed RabbitMQ.
type program struct {
	sbin string // folder of rabbitmq-server and rabbitmqctl
	epmd string // Erlang's port mapper
}

// find returns the program; it installs RabbitMQ when the machine allows that.
func find(ctx context.Context, machine devservices.Machine, places []string) (program, error) {
	if p, ok := installed(places); ok {
		return p, nil
	}
	if machine.MayInstall() {
		done := func() bool { _, ok := installed(places); return ok }
		if err := machine.Install(ctx, done, "rabbitmq-server"); err != nil {
			return program{}, err
		}
		if p, ok := installed(places); ok {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("RabbitMQ %w: install the package \"rabbitmq-server\" (apt-get install rabbitmq-server, brew install rabbitmq)",
		devservices.ErrNotInstalled)
}

// Installed reports whether Start would find RabbitMQ, or has been given one.
func Installed() bool {
	_, ok := installed(places)
	return ok || devservices.ThisMachine().Getenv("OUTBOX_TEST_RABBITMQ_URL") != ""
}

func installed(places []string) (program, bool) {
	epmd, ok := findEPMD()
	if !ok {
		return program{}, false
	}
	for _, place := range places {
		folders, _ := filepath.Glob(place) // fails for a malformed pattern only
		for _, dir := range folders {
			if isProgram(filepath.Join(dir, "rabbitmq-server")) && isProgram(filepath.Join(dir, "rabbitmqctl")) {
				return program{dir, epmd}, true
			}
		}
	}
	return program{}, false
}

func findEPMD() (string, bool) {
	if path, err := exec.LookPath("epmd"); err == nil {
		return path, true
	}
	for _, pattern := range []string{"/usr/lib/erlang/erts-*/bin/epmd", "/usr/local/lib/erlang/erts-*/bin/epmd"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], true
		}
	}
	return "", false
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

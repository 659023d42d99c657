package fence

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const composeFile = "../../deploy/compose.yaml"

// compose is a Compose file with exactly the keys that ours has.
type compose struct {
	Name     string
	Services map[string]composeService
	Volumes  map[string]*struct{}
}

type composeService struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Hostname    string
	Ports       []string
	Volumes     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout time.Duration
		StartPeriod       time.Duration `yaml:"start_period"`
		Retries           int
	}
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
	Restart         string
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
}

func composeProblems(t *testing.T, text string) (problems []string) {
	t.Helper()
	var c compose
	if err := strictly(text, func(int) any { return &c }); err != nil {
		return []string{err.Error()}
	}
	for name, s := range c.Services {
		if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" {
			problems = append(problems, name+" has no healthcheck by a command")
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				problems = append(problems, fmt.Sprintf("%s: port %s is open to others", name, port))
			}
		}
		for on, d := range s.DependsOn {
			if _, ok := c.Services[on]; !ok || d.Condition != "service_healthy" {
				problems = append(problems, fmt.Sprintf("%s waits for %s to be %q", name, on, d.Condition))
			}
		}
	}
	return append(problems, relayProblems(t, c.Services["relay"])...)
}

func relayProblems(t *testing.T, s composeService) (problems []string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(composeFile), s.Build.Context, s.Build.Dockerfile)
	if path != filepath.Clean(dockerfile) {
		problems = append(problems, "the relay is built from "+path)
	}
	w := workload{args: s.Command, env: s.Environment, files: map[string]string{}, grace: s.StopGracePeriod}
	for _, mount := range s.Volumes {
		source, target, _ := strings.Cut(strings.TrimSuffix(mount, ":ro"), ":")
		w.files[target] = read(t, filepath.Join("../../deploy", source))
	}
	if len(s.Healthcheck.Test) > 0 {
		w.probes = [][]string{s.Healthcheck.Test[1:]}
	}
	if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
		problems = append(problems, "the relay may write to its image, or has capabilities")
	}
	return append(problems, w.problems(t)...)
}

// TestCompose: the relay of the Compose file has settings and commands that the program takes, and time to stop.
func TestCompose(t *testing.T) {
	wantFaults(t, composeFile, composeProblems,
		fault{"stop_grace_period: 30s", "stop_grace_period: 20s", "killed after 20s"},
		fault{"    stop_grace_period: 30s\n", "", "killed after 0s"},
		fault{"stop_grace_period:", "stop_grace_periods:", "not found in type"},
		fault{"OUTBOX_DATABASE_URL:", "OUTBOX_DATABASE_URI:", "OUTBOX_DATABASE_URI: there is no such setting"},
		fault{"OUTBOX_DATABASE_URL: postgres", "SHOP_URL: postgres", "run has no database"},
		fault{"NATS_URL:", "NATS:", "the variable NATS_URL is not set"},
		fault{"AMQP_URL:", "AMQP:", "the variable AMQP_URL is not set"},
		fault{"/etc/outbox/outbox.yaml:ro", "/etc/outbox/config.yaml:ro", "no such file"},
		fault{`command: ["run"]`, `command: ["relay"]`, "not with run"},
		fault{`command: ["run"]`, `command: ["run", "--fast"]`, "unknown flag: --fast"},
		fault{`"outbox", "health"`, `"outbox", "healthy"`, "is not outbox health"},
		fault{`"outbox", "health"`, `"outbox", "health", "--quiet"`, "unknown flag: --quiet"},
		fault{"      test: [\"CMD\", \"outbox\", \"health\"]\n", "", "relay has no healthcheck"},
		fault{"127.0.0.1:4222:4222", "4222:4222", "open to others"},
		fault{"nats: {condition: service_healthy}", "nat: {condition: service_healthy}", "waits for nat"},
		fault{"read_only: true", "read_only: false", "may write"},
		fault{"deploy/Dockerfile\n", "Dockerfile\n", "built from"})
}

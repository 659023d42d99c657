package fence

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const unitFile = "../../deploy/outbox.service"

// directives are those of systemd that the unit may use, by section. systemd ignores what it does not know, and with
// that a protection that is misspelt.
var directives = map[string]string{
	"Unit": "Description Documentation Wants After",
	"Service": `ExecStart Environment LoadCredential Restart RestartSec TimeoutStopSec DynamicUser NoNewPrivileges
		ProtectSystem ProtectHome PrivateTmp PrivateDevices ProtectClock ProtectControlGroups ProtectHostname
		ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc RestrictAddressFamilies
		RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute
		SystemCallArchitectures SystemCallFilter CapabilityBoundingSet UMask`,
	"Install": "WantedBy",
}

// demanded is what the unit must say.
var demanded = map[string]string{
	"Restart": "always", "DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
}

const credentials = "/run/credentials/outbox.service" // %d

// unit is the values of each directive.
type unit map[string][]string

func parseUnit(text string) (u unit, problems []string) {
	u = unit{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok || !slices.Contains(strings.Fields(directives[section]), name):
			problems = append(problems, fmt.Sprintf("unknown directive %s in [%s]", name, section))
		default:
			u[name] = append(u[name], strings.ReplaceAll(value, "%d", credentials))
		}
	}
	return u, problems
}

func unitProblems(t *testing.T, text string) []string {
	t.Helper()
	u, problems := parseUnit(text)
	for name, want := range demanded {
		if got := u[name]; len(got) != 1 || got[0] != want {
			problems = append(problems, fmt.Sprintf("%s is %q, not %q", name, got, want))
		}
	}
	problems = append(problems, verified(t, text)...)
	if len(u["ExecStart"]) != 1 || len(u["TimeoutStopSec"]) != 1 {
		return append(problems, "not one ExecStart and TimeoutStopSec")
	}
	start := strings.Fields(u["ExecStart"][0])
	if start[0] != "/usr/local/bin/outbox" {
		problems = append(problems, "it starts "+start[0])
	}
	w := workload{args: start[1:], env: map[string]string{}, files: map[string]string{"/etc/outbox/outbox.yaml": read(t, sampleFile)}}
	w.grace, _ = time.ParseDuration(u["TimeoutStopSec"][0])
	for _, entry := range u["Environment"] {
		name, value, _ := strings.Cut(entry, "=")
		w.env[name] = value
	}
	for _, entry := range u["LoadCredential"] {
		name, _, _ := strings.Cut(entry, ":")
		w.files[credentials+"/"+name] = "postgres://shop@localhost/shop"
	}
	return append(problems, w.problems(t)...)
}

// verified asks systemd, where there is one.
func verified(t *testing.T, text string) []string {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return nil
	}
	path := filepath.Join(t.TempDir(), "outbox.service")
	write(t, path, strings.ReplaceAll(text, "/usr/local/bin/outbox", program(t)))
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		return []string{fmt.Sprintf("systemd-analyze: %v: %s", err, out)}
	}
	return nil
}

// TestUnit: systemd knows all that the unit says, the program takes it, and the relay has time to stop and few rights.
func TestUnit(t *testing.T) {
	wantFaults(t, unitFile, unitProblems,
		fault{"TimeoutStopSec=30s", "TimeoutStopSec=15s", "killed after 15s"},
		fault{"TimeoutStopSec=30s\n", "", "not one ExecStart"},
		fault{"NoNewPrivileges=yes", "NoNewPriviledges=yes", "unknown directive NoNewPriviledges"},
		fault{"NoNewPrivileges=yes", "NoNewPrivileges=no", "NoNewPrivileges is"},
		fault{"ProtectSystem=strict\n", "", "ProtectSystem is"},
		fault{"DynamicUser=yes", "DynamicUser=no", "DynamicUser is"},
		fault{"Restart=always", "Restart=no", "Restart is"},
		fault{"RestartSec=5s", "User=", "unknown directive User"},
		fault{"--config /etc", "--settings /etc", "unknown flag: --settings"},
		fault{"/outbox run", "/outbox start", "not with run"},
		fault{"OUTBOX_DATABASE_URL_FILE", "OUTBOX_DATABASE_URLFILE", "there is no such setting"},
		fault{"LoadCredential=database-url", "LoadCredential=url", "no such file"},
		fault{"NATS_URL=", "NATS=", "the variable NATS_URL is not set"},
		fault{"AMQP_URL=", "AMQP=", "the variable AMQP_URL is not set"},
		fault{"/usr/local/bin/outbox run", "/usr/bin/outbox run", "it starts"})
}

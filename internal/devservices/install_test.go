package devservices

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func machine(root bool, env map[string]string) Machine {
	return Machine{Getenv: func(name string) string { return env[name] }, Root: root, Log: &bytes.Buffer{}}
}

func TestMayInstall(t *testing.T) {
	cases := []struct {
		name string
		m    Machine
		want bool
	}{
		{"root in CI", machine(true, map[string]string{"CI": "true"}), true},
		{"root who wants it", machine(true, map[string]string{"OUTBOX_TEST_INSTALL": "1"}), true},
		{"root on a laptop", machine(true, nil), false},
		{"root with CI off", machine(true, map[string]string{"CI": "false"}), false},
		{"user in CI", machine(false, map[string]string{"CI": "true", "OUTBOX_TEST_INSTALL": "1"}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.m.MayInstall(); got != c.want {
				t.Errorf("MayInstall = %v, want %v", got, c.want)
			}
		})
	}
}

// fakeApt puts an apt-get first on PATH that notes its arguments, says a word and exits with the status.
func fakeApt(t *testing.T, status string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "notes")
	script := "#!/bin/sh\necho \"$DEBIAN_FRONTEND $*\" >>" + notes + "\necho apt speaks\nexit " + status + "\n"
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return notes
}

func TestInstall(t *testing.T) {
	notes := fakeApt(t, "0")
	never := func() bool { return false }
	if err := machine(true, nil).Install(t.Context(), never, "left", "right"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"noninteractive -q", " update\n", " install -y --no-install-recommends left right\n"} {
		if !strings.Contains(string(got), part) {
			t.Errorf("apt-get got %q, want %q in it", got, part)
		}
	}
}

func TestInstallDoneByAnother(t *testing.T) {
	notes := fakeApt(t, "0")
	if err := machine(true, nil).Install(t.Context(), func() bool { return true }, "left"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(notes); err == nil {
		t.Errorf("apt-get ran: %q", got)
	}
}

func TestInstallFails(t *testing.T) {
	fakeApt(t, "100")
	err := machine(true, nil).Install(t.Context(), func() bool { return false }, "left")
	if err == nil || !strings.Contains(err.Error(), "apt speaks") || !strings.Contains(err.Error(), "100") {
		t.Errorf("Install = %v, want the status and the output of apt-get", err)
	}
}

func TestChildren(t *testing.T) {
	sup := supervise(t, "")
	children, err := Children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range children {
		if pid == sup.Pid() {
			return
		}
	}
	t.Errorf("Children = %v, want %d among them", children, sup.Pid())
}

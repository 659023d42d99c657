package pgtest

import (
	"flag"
	"io"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

func TestSkipExamples(t *testing.T) {
	skip := flag.Lookup("test.skip").Value
	before := skip.String()
	defer skip.Set(before)
	for name, c := range map[string]struct {
		env       map[string]string
		root      bool
		installed bool
		skipped   bool
	}{
		"a laptop without PostgreSQL":     {skipped: true},
		"a laptop with PostgreSQL":        {installed: true},
		"continuous integration":          {env: map[string]string{"CI": "true"}},
		"a server is given":               {env: map[string]string{pgdev.EnvURL: "postgres://x"}},
		"PostgreSQL may be installed":     {env: map[string]string{"OUTBOX_TEST_INSTALL": "1"}, root: true},
		"PostgreSQL may not be installed": {env: map[string]string{"OUTBOX_TEST_INSTALL": "1"}, skipped: true},
	} {
		if err := skip.Set(""); err != nil {
			t.Fatal(err)
		}
		machine := devservices.Machine{Getenv: func(k string) string { return c.env[k] }, Root: c.root, Log: io.Discard}
		if err := skipExamples(machine, func() bool { return c.installed }); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.skipped {
			want = "^Example"
		}
		if got := skip.String(); got != want {
			t.Errorf("%s: skipped is %q, want %q", name, got, want)
		}
	}
}

func TestWithExamples(t *testing.T) {
	if got := withExamples("TestA/b"); got != "TestA/b|^Example" {
		t.Errorf("skipped is %q", got)
	}
}

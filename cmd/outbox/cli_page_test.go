package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCommandPage: docs/cli.md is what the commands say about themselves.
func TestCommandPage(t *testing.T) {
	const page = "../../docs/cli.md"
	want := commandPage(t)
	if *update {
		write(t, page, want)
		return
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Error("docs/cli.md differs from the program; go test ./cmd/outbox -run TestCommandPage -update writes it")
	}
}

func commandPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# The program's commands\n\nGenerated from the program (`go test ./cmd/outbox -run TestCommandPage -update`).\n" +
		"The settings that most commands take are explained in [config.md](config.md).\n\n" +
		"| Exit code | |\n|---|---|\n")
	for _, e := range []struct {
		code int
		what string
	}{
		{exitDone, "done"}, {exitFailed, "failed"}, {exitUsage, "wrong usage or configuration"}, {exitNothing, "nothing matched"},
		{exitUnhealthy, "unhealthy, or a check found something"}, {exitAbandoned, "stopped with work abandoned"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.what)
	}
	for _, c := range commands() {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimRight(call(t, nil, args...).out, "\n"))
	}
	b.WriteString("\n## outbox completion\n\nWrites a completion script for `bash`, `zsh`, `fish` or `powershell`: `source <(outbox completion bash)`.\n")
	return b.String()
}

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestConfigPage: the page of the configuration has all settings, as the program has them.
func TestConfigPage(t *testing.T) {
	const page, begin, end = "../../docs/config.md", "<!-- settings -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("the page has no place for the settings")
	}
	want := settingsTable()
	if *update {
		write(t, page, head+begin+want+end+tail)
	} else if table != want {
		t.Error("the settings differ from the program's; go test -update writes them")
	}
	for _, s := range schemes() {
		for _, name := range s.names {
			if !strings.Contains(string(text), "`"+name+":") {
				t.Errorf("the page does not tell of %s:", name)
			}
		}
		for _, o := range s.options {
			if !strings.Contains(tail, "`"+o.name+"`") {
				t.Errorf("the page does not tell of the option %s", o.name)
			}
		}
	}
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| Key | Flag | Variable | Default | What it is |\n|---|---|---|---|---|\n")
	for _, s := range settings() {
		fmt.Fprintf(&b, "| `%s` | `--%s` | `%s` | %s | %s |\n", s.key, s.flag(), s.env(), s.def, s.usage)
	}
	return b.String()
}

// TestExampleOfConfigPage: what the page shows is a configuration.
func TestExampleOfConfigPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	example = strings.Replace(example, "url_file: secrets/amqp-url", `url: "amqp://host"`, 1)
	call(t, nil, "config", "--config", configFile(t, example)).want(t, exitDone)
}

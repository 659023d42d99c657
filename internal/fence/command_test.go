package fence

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shown is a call of the program in a document: a line of a block, after variables, go run or a pipe.
var shown = regexp.MustCompile(`(?m)^ {0,6}(?:[A-Z_]+=\S+ |.*\| |go run \./cmd/)?outbox ((?:'[^']*'|[^'|<>&;#\n])+)`)

var word = regexp.MustCompile(`'[^']*'|\S+`)

// TestCommandsExist: documents show no command or flag that the program does not have.
func TestCommandsExist(t *testing.T) {
	found := 0
	for _, doc := range files(t, ".md") {
		calls, problems := strangeCalls(t, read(t, doc))
		found += calls
		for _, problem := range problems {
			t.Errorf("%s: %s", doc, problem)
		}
	}
	if found < 8 {
		t.Errorf("found %d commands, docs/daemon.md alone has as many", found)
	}
}

func strangeCalls(t *testing.T, text string) (calls int, problems []string) {
	t.Helper()
	for _, block := range blocks(text) {
		for _, match := range shown.FindAllStringSubmatch(block, -1) {
			calls++
			if problem := wrongCommand(t, word.FindAllString(match[1], -1)); problem != "" {
				problems = append(problems, fmt.Sprintf("%q: %s", strings.TrimSpace(match[0]), problem))
			}
		}
	}
	return calls, problems
}

var (
	fenced   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	indented = regexp.MustCompile(`(?m)^    .*$`)
)

// blocks are the parts of a document that are typed in a shell.
func blocks(text string) (found []string) {
	for _, match := range fenced.FindAllStringSubmatch(text, -1) {
		if match[1] == "" || match[1] == "sh" {
			found = append(found, match[2])
		}
	}
	return append(found, indented.FindAllString(text, -1)...)
}

func TestCommandCheckFires(t *testing.T) {
	text := "    outbox run --to x --fast\n\n```sh\nA=b outbox start\noutbox wait   # for it\necho '{}' | outbox publish --files -\ngo run ./cmd/outbox migrate apply\n```\n\noutbox is a word\n"
	calls, got := strangeCalls(t, text)
	if calls != 5 || len(got) != 4 || slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "wait") }) {
		t.Errorf("%d calls, problems %q", calls, got)
	}
}

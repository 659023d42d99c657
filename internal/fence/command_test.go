package fence

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
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

// named is a command in a text of the program: at its beginning, or where one is named.
var named = regexp.MustCompile(`(?:^|→ |by: |run: |see: |missing: |one: )outbox ([a-z]+(?: (?:'[^']*'|[^\s:;,()]+))*)`)

// TestNamedCommandsExist: what the packages print as a command to type is one, with its flags.
func TestNamedCommandsExist(t *testing.T) {
	found := 0
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/bench/") || strings.Contains(path, "/internal/") {
			continue
		}
		for _, literal := range literals(t, path) {
			calls, problems := strangeNames(t, literal)
			found += calls
			for _, problem := range problems {
				t.Errorf("%s: %q: %s", path, literal, problem)
			}
		}
	}
	if found < 25 {
		t.Errorf("found %d commands, the command line alone has as many", found)
	}
}

// literals are the texts in a source file.
func literals(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && !strings.Contains(text, "\n") {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// prose are words after which a text that begins with outbox is no command.
var prose = []string{"on", "ledger", "headers"}

var placeholder = regexp.MustCompile(`%[dqsv]`)

// strangeNames finds what is no command among those that a text names. What follows in the code, or is put in, is a value.
func strangeNames(t *testing.T, text string) (calls int, problems []string) {
	t.Helper()
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		words := word.FindAllString(placeholder.ReplaceAllString(match[1], "1"), -1)
		if slices.Contains(prose, words[0]) {
			continue
		}
		calls++
		if strings.HasPrefix(words[len(words)-1], "--") && strings.HasSuffix(text, " ") {
			words = append(words, "1")
		}
		if problem := wrongCommand(t, words); problem != "" {
			problems = append(problems, problem)
		}
	}
	return calls, problems
}

func TestNamedCommandCheckFires(t *testing.T) {
	for text, want := range map[string]int{
		"outbox retry --id ": 0, "outbox redrive --continue %d": 0, "start one: outbox run --engine wal": 0, "run: outbox migrate up: %w": 0,
		"outbox retries --id ": 1, "outbox retry --ids ": 1, "see: outbox dead --all": 1, "→ outbox migrate upwards": 1,
	} {
		if calls, problems := strangeNames(t, text); calls != 1 || len(problems) != want {
			t.Errorf("%q: %d calls, %q", text, calls, problems)
		}
	}
}

func TestCommandCheckFires(t *testing.T) {
	text := "    outbox run --to x --fast\n\n```sh\nA=b outbox start\noutbox wait   # for it\necho '{}' | outbox publish --files -\ngo run ./cmd/outbox migrate apply\n```\n\noutbox is a word\n"
	calls, got := strangeCalls(t, text)
	if calls != 5 || len(got) != 4 || slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "wait") }) {
		t.Errorf("%d calls, problems %q", calls, got)
	}
}

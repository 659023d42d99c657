package fence

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippet is a block of Go or SQL in a document, under a comment that names the file it is taken from.
var snippet = regexp.MustCompile("(?m)(?:^<!-- from (\\S+) -->\n)?^```(go|sql)\n((?s:.*?))^```$")

// TestSnippetsAreSource: the Go code in documents is taken from Examples, which are compiled and run, and SQL from
// migrations. SQL that is only an example need not say where it is from.
func TestSnippetsAreSource(t *testing.T) {
	found := 0
	for _, doc := range files(t, ".md") {
		text := read(t, doc)
		found += len(snippet.FindAllString(text, -1))
		for _, problem := range strayed(text, func(path string) string { return read(t, filepath.Join("../..", path)) }) {
			t.Errorf("%s: %s", doc, problem)
		}
	}
	if found < 2 {
		t.Errorf("found %d snippets, the README has more", found)
	}
}

// strayed finds blocks that name no file, or do not occur in it, indentation aside.
func strayed(text string, read func(path string) string) (problems []string) {
	for _, match := range snippet.FindAllStringSubmatch(text, -1) {
		path, language, code := match[1], match[2], match[3]
		first, _, _ := strings.Cut(code, "\n")
		switch {
		case path == "" && language == "sql":
		case path == "":
			problems = append(problems, fmt.Sprintf("the block %q names no file", first))
		case !strings.Contains(flat(read(path)), flat(code)):
			problems = append(problems, fmt.Sprintf("the block %q is not in %s", first, path))
		}
	}
	return problems
}

// flat is text without indentation, each line with an end at both sides.
func flat(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

func TestSnippetCheckFires(t *testing.T) {
	text := "<!-- from a.go -->\n```go\nx := 1\n  y()\n```\n\n```go\nz()\n```\n\n<!-- from a.go -->\n```go\nx := 2\n```\n\n<!-- from a.go -->\n```sql\ndelete\n```\n\n```sql\nselect\n```\n"
	got := strayed(text, func(string) string { return "\tx := 1\n\ty()\n" })
	if want := []string{`the block "z()" names no file`, `the block "x := 2" is not in a.go`, `the block "delete" is not in a.go`}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

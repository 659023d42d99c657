package fence

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link is a link of a document, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#\s]+)`)

// TestLinksExist: documents link to no file that is not there. Addresses on the web are not followed.
func TestLinksExist(t *testing.T) {
	for _, doc := range files(t, ".md") {
		exists := func(target string) bool {
			_, err := os.Stat(filepath.Join(filepath.Dir(doc), target))
			return err == nil
		}
		for _, problem := range deadLinks(read(t, doc), exists) {
			t.Errorf("%s: %s", doc, problem)
		}
	}
}

func deadLinks(text string, exists func(target string) bool) (problems []string) {
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		if target := match[1]; !strings.Contains(target, "://") && !exists(target) {
			problems = append(problems, fmt.Sprintf("there is no file %q", target))
		}
	}
	return problems
}

func TestLinkCheckFires(t *testing.T) {
	text := "[a](here.md#part), [b](../gone.md), [c](https://example.com/gone), [d](#part)"
	got := deadLinks(text, func(target string) bool { return target == "here.md" })
	if want := []string{`there is no file "../gone.md"`}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

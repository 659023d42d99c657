package fence

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox/storetest"
)

// proof is how documents name what proves a claim: a test as `package.TestName`, a case of the conformance suite as
// `storetest: its name`.
var proof = regexp.MustCompile("`(?:(\\w+)\\.((?:Test|Fuzz|Example)\\w+)|storetest: ([^`]+))`")

// TestProofsExist: documents name no test that is not there.
func TestProofsExist(t *testing.T) {
	known := tests(t)
	for _, name := range append(files(t, ".md"), "../../doc.go") {
		for _, problem := range missingProofs(read(t, name), known) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestGuaranteesAreProved: every row of the guarantees' tables names a proof. The matrix is one itself.
func TestGuaranteesAreProved(t *testing.T) {
	promises, _, _ := strings.Cut(read(t, "../../docs/guarantees.md"), "<!-- matrix -->")
	rows := unprovedRows(promises)
	for _, row := range rows {
		t.Errorf("without a proof: %s", row)
	}
}

// tests are the tests, fuzz tests and examples of all packages as package.Name, and the conformance cases.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, c := range storetest.Cases() {
		known["storetest: "+c.Name] = true
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w+)\(`)
	clause := regexp.MustCompile(`(?m)^package (\w+?)(?:_test)?$`)
	for _, path := range files(t, "_test.go") {
		text := read(t, path)
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			known[clause.FindStringSubmatch(text)[1]+"."+match[1]] = true
		}
	}
	return known
}

// files are the paths of the repository's files that end so.
func files(t *testing.T, suffix string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func missingProofs(text string, known map[string]bool) (problems []string) {
	for _, match := range proof.FindAllStringSubmatch(text, -1) {
		name := match[1] + "." + match[2]
		if match[3] != "" {
			name = "storetest: " + match[3]
		}
		if !known[name] {
			problems = append(problems, fmt.Sprintf("there is no test %q", name))
		}
	}
	return problems
}

// unprovedRows are the rows of tables, their heads left out, that name no proof.
func unprovedRows(text string) (rows []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--") {
			continue
		}
		if !proof.MatchString(line) {
			rows = append(rows, line)
		}
	}
	return rows
}

func TestProofChecksFire(t *testing.T) {
	known := map[string]bool{"a.TestB": true, "storetest: it works": true}
	text := "| Claim | Proof |\n|---|---|\n| x | `a.TestB`, `storetest: it works` |\n| y | `a.TestC` |\n| z | `storetest: it fails` |\n| none | - |\n"
	got := missingProofs(text, known)
	if want := []string{`there is no test "a.TestC"`, `there is no test "storetest: it fails"`}; !slices.Equal(got, want) {
		t.Errorf("missing proofs %q, want %q", got, want)
	}
	if got := unprovedRows(text); !slices.Equal(got, []string{"| none | - |"}) {
		t.Errorf("unproved rows %q, want the last", got)
	}
}

// TestCommentsNameTests: where a comment of the code names a test, its package has it.
func TestCommentsNameTests(t *testing.T) {
	known := tests(t)
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, problem := range missingInComments(read(t, path), known) {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

var (
	packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)
	commentLine   = regexp.MustCompile(`(?m)//.*$`)
	testName      = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

func missingInComments(text string, known map[string]bool) (problems []string) {
	pkg := packageClause.FindStringSubmatch(text)[1]
	for _, comment := range commentLine.FindAllString(text, -1) {
		for _, name := range testName.FindAllString(comment, -1) {
			if name != "TestMain" && name != "TestSomething" && !known[pkg+"."+name] {
				problems = append(problems, fmt.Sprintf("there is no test %s in package %s", name, pkg))
			}
		}
	}
	return problems
}

func TestCommentCheckFires(t *testing.T) {
	got := missingInComments("// It holds (TestA, TestB).\npackage p\n", map[string]bool{"p.TestA": true, "q.TestB": true})
	if want := []string{"there is no test TestB in package p"}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

package fence

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	modulePath = "github.com/outboxrelay/outbox"
	record     = "../../docs/adr/0001-dependencies.md"
)

func TestRootImports(t *testing.T) {
	imports := runGo(t, "list", "-f", `{{join .Imports "\n"}}`, modulePath)
	for _, problem := range foreignImports(strings.Fields(string(imports))) {
		t.Error(problem)
	}
}

// foreignImports are those that the root package must not have.
func foreignImports(imports []string) (problems []string) {
	for _, path := range imports {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") && path != "github.com/google/uuid" && !strings.HasPrefix(path, modulePath+"/internal/") {
			problems = append(problems, fmt.Sprintf("the root package imports %s; it may import the standard library, github.com/google/uuid and internal packages", path))
		}
	}
	return problems
}

// TestTestingImportsNoDriver: outboxtest looks into transactions of PostgreSQL without importing a driver for it.
func TestTestingImportsNoDriver(t *testing.T) {
	deps := strings.Fields(string(runGo(t, "list", "-deps", modulePath+"/outboxtest")))
	if !slices.Contains(deps, modulePath) {
		t.Fatalf("the list lacks the root package: %q", deps)
	}
	for _, path := range deps {
		if strings.Contains(path, "/pgx/") || strings.HasSuffix(path, "/lib/pq") || strings.HasSuffix(path, "/pgstore") {
			t.Errorf("outboxtest comes to import %s", path)
		}
	}
}

func TestForeignImportsFires(t *testing.T) {
	got := foreignImports([]string{"context", "encoding/json", "github.com/google/uuid", "github.com/jackc/pgx/v5", modulePath + "/pgstore"})
	if len(got) != 2 {
		t.Errorf("problems %q, want those of pgx and pgstore", got)
	}
}

func TestDependenciesRecorded(t *testing.T) {
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range unrecorded(directDependencies(t), string(text)) {
		t.Error(problem)
	}
}

func directDependencies(t *testing.T) (modules []string) {
	t.Helper()
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(runGo(t, "mod", "edit", "-json"), &file); err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	for _, r := range file.Require {
		if !r.Indirect {
			modules = append(modules, r.Path)
		}
	}
	return modules
}

// recordLine is a row of the record's table: the module is its first cell.
var recordLine = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// unrecorded compares the direct dependencies with the rows of the record.
func unrecorded(modules []string, text string) (problems []string) {
	var recorded []string
	for _, match := range recordLine.FindAllStringSubmatch(text, -1) {
		recorded = append(recorded, match[1])
	}
	for _, m := range modules {
		if !slices.Contains(recorded, m) {
			problems = append(problems, m+" is a direct dependency without a line in ADR 0001")
		}
	}
	for _, m := range recorded {
		if !slices.Contains(modules, m) {
			problems = append(problems, m+" has a line in ADR 0001 and is no direct dependency")
		}
	}
	return problems
}

func TestUnrecordedFires(t *testing.T) {
	got := unrecorded([]string{"both", "new"}, "| Module |\n|---|\n| `both` | x |\n| `old` | x |\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "new ") || !strings.HasPrefix(got[1], "old ") {
		t.Errorf("problems %q, want one of new and one of old", got)
	}
}

func runGo(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", args[0], err)
	}
	return out
}

package fence

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outboxrelay/outbox"

// command runs the go command in a folder and returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// requirements makes a module that imports the packages and returns what its go.mod requires after go mod tidy.
func requirements(t *testing.T, imports ...string) []string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source := "package main\n\nimport (\n"
	for _, path := range imports {
		source += "\t_ \"" + path + "\"\n"
	}
	write(t, filepath.Join(dir, "main.go"), source+")\n\nfunc main() {}\n")
	// The project's go.mod, so that tidy keeps its versions and only removes.
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	write(t, filepath.Join(dir, "go.mod"), "module example.com/consumer\n"+rest+
		"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), string(sum))
	command(t, dir, "mod", "tidy")
	return slices.DeleteFunc(strings.Fields(command(t, dir, "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")),
		func(path string) bool { return !required(t, dir, path) })
}

// required reports whether the folder's go.mod names the module.
func required(t *testing.T, dir, path string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "\t"+path+" v") || strings.Contains(string(text), "require "+path+" v")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// allowed is everything that a program with the root package and pgstore may come to require: PostgreSQL's client,
// UUIDs, and the libraries of pgstore's own tests, which go mod tidy counts.
var allowed = []string{
	"github.com/google/uuid", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
	"github.com/jackc/puddle/v2", "golang.org/x/sync", "golang.org/x/text",
	"go.uber.org/goleak", "pgregory.net/rapid", module,
}

// TestConsumerRequirements: importing the library brings no server, broker client, other driver or command line into
// the go.mod of a program.
func TestConsumerRequirements(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go mod tidy")
	}
	for _, path := range requirements(t, module, module+"/pgstore") {
		if !slices.Contains(allowed, path) {
			t.Errorf("a consumer comes to require %s", path)
		}
	}
	// That an import would be seen is shown by one that is not allowed.
	if got := requirements(t, module, "github.com/lib/pq"); !slices.Contains(got, "github.com/lib/pq") {
		t.Errorf("the check does not see lib/pq: %q", got)
	}
}

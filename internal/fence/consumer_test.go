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

// consumer makes a module that imports the packages, runs go mod tidy and returns the modules that its go.mod and its
// go.sum name.
func consumer(t *testing.T, imports ...string) (requires, sums []string) {
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
	// It begins with all that the project has, so that tidy keeps the versions and only removes.
	_, rest, _ := strings.Cut(read(t, filepath.Join(root, "go.mod")), "\n")
	write(t, filepath.Join(dir, "go.mod"), "module example.com/consumer\n"+rest+
		"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	write(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(root, "go.sum")))
	command(t, dir, "mod", "tidy")
	for line := range strings.Lines(read(t, filepath.Join(dir, "go.mod"))) {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(words) >= 2 && strings.HasPrefix(words[1], "v") {
			requires = append(requires, words[0])
		}
	}
	for line := range strings.Lines(read(t, filepath.Join(dir, "go.sum"))) {
		path, _, _ := strings.Cut(line, " ")
		sums = append(sums, path)
	}
	return requires, sums
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// allowed is everything that a program with the root package and pgstore may come to require: PostgreSQL's client and
// UUIDs.
var allowed = []string{
	"github.com/google/uuid", "github.com/jackc/pgio", "github.com/jackc/pglogrepl", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
	"github.com/jackc/puddle/v2", "golang.org/x/sync", "golang.org/x/text", module,
}

// unwanted begin the paths of modules that must not even be in a program's go.sum, where go mod tidy puts what the
// tests of the packages import that the program imports.
var unwanted = []string{
	"github.com/lib/pq", "github.com/nats-io/", "github.com/rabbitmq/", "github.com/spf13/", "github.com/prometheus/",
	"github.com/Shopify/", "google.golang.org/grpc", "modernc.org/", "go.opentelemetry.io/",
}

func isUnwanted(path string) bool {
	return slices.ContainsFunc(unwanted, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// TestConsumerRequirements: importing the library brings no server, broker client, other driver or command line into
// the go.mod or go.sum of a program.
func TestConsumerRequirements(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go mod tidy")
	}
	requires, sums := consumer(t, module, module+"/pgstore")
	if !slices.Contains(requires, "github.com/jackc/pgx/v5") {
		t.Errorf("the check does not see pgx: %q", requires)
	}
	for _, path := range requires {
		if !slices.Contains(allowed, path) {
			t.Errorf("go.mod of a consumer comes to require %s", path)
		}
	}
	for _, path := range slices.Compact(sums) {
		if isUnwanted(path) {
			t.Errorf("go.sum of a consumer comes to name %s", path)
		}
	}
	// The driver for SQLite is the program's own choice, and PostgreSQL's client no part of it.
	requires, _ = consumer(t, module, module+"/sqlitestore")
	for _, path := range requires {
		if path != module && path != "github.com/google/uuid" {
			t.Errorf("go.mod of a consumer of sqlitestore comes to require %s", path)
		}
	}
	// That an import would be seen is shown by one that is not allowed.
	requires, sums = consumer(t, module, "github.com/lib/pq")
	if !slices.Contains(requires, "github.com/lib/pq") || !slices.ContainsFunc(sums, isUnwanted) {
		t.Errorf("the check does not see lib/pq: %q, %q", requires, sums)
	}
}

package fence

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is the program outbox, made when the first test needs it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of the program.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "outbox-fence-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", built.dir, module+"/cmd/outbox")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = errors.New(err.Error() + ": " + string(out))
		}
	})
	if built.err != nil {
		t.Fatalf("build the program: %v", built.err)
	}
	return filepath.Join(built.dir, "outbox")
}

// call runs the program with nothing but the given environment.
func call(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Env = []string{}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("outbox %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), strings.TrimSpace(log.String())
}

// printed is what outbox config --json prints, as far as it is needed here.
type printed struct {
	Settings []struct {
		Key, Value, Source string
	}
	Destinations []struct{ Name string }
}

func (p printed) value(key string) (value string, given bool) {
	for _, s := range p.Settings {
		if s.Key == key {
			return s.Value, s.Source != "default"
		}
	}
	return "", false
}

// printedConfig is the configuration that the program has with these arguments, or what it says is wrong with them.
func printedConfig(t *testing.T, env map[string]string, args ...string) (p printed, problem string) {
	t.Helper()
	code, out, stderr := call(t, env, append([]string{"config", "--json"}, args...)...)
	if code != 0 {
		return p, stderr
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("outbox config: %v: %s", err, out)
	}
	return p, ""
}

// wrongCommand says what the program does not know of a command line: the verb or a flag.
func wrongCommand(t *testing.T, args []string) string {
	t.Helper()
	code, help, stderr := call(t, nil, append(append([]string{}, args...), "--help")...)
	if code != 0 {
		problem, _, _ := strings.Cut(stderr, "\n")
		return problem
	}
	// A group of verbs answers for those that it does not have.
	verbs := "outbox"
	for _, word := range args {
		if strings.HasPrefix(word, "-") || strings.Contains(help, "\n  "+verbs+" ID") { // what follows is no verb
			break
		}
		verbs += " " + word
	}
	if !strings.Contains(help, "\n  "+verbs+" ") {
		return "there is no command " + verbs
	}
	return ""
}

package fence

import (
	"encoding/json"
	"fmt"
	"go/version"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dockerfile = "../../deploy/Dockerfile"

// imageOutput is what the build makes.
const imageOutput = "/outbox"

// image is what a Dockerfile says, as far as the checks care.
type image struct {
	goVersion string // of the image that builds
	build     string // the line that does
	base      string // of the image that is made
	user      string
	copied    []string // sources of files that come from the build
	entry     []string
	cmd       []string
	unknown   []string
}

var continued = regexp.MustCompile(`\\\n\s*`)

func parseImage(text string) (i image) {
	for line := range strings.Lines(continued.ReplaceAllString(text, "")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			base, _, _ := strings.Cut(rest, " ")
			if tag, ok := strings.CutPrefix(base, "golang:"); ok {
				i.goVersion = tag
			}
			i.base, i.user, i.copied = base, "", nil
		case "RUN":
			if strings.Contains(rest, "go build") {
				i.build = rest
			}
		case "USER":
			i.user = rest
		case "COPY":
			if source, ok := strings.CutPrefix(rest, "--from=build "); ok {
				i.copied = append(i.copied, strings.Fields(source)[0])
			}
		case "ENTRYPOINT":
			i.entry = execForm(rest)
		case "CMD":
			i.cmd = execForm(rest)
		case "WORKDIR", "ENV", "ARG", "LABEL", "":
		default:
			if !strings.HasPrefix(word, "#") {
				i.unknown = append(i.unknown, word)
			}
		}
	}
	return i
}

// execForm reads a list of words; what is no list would need a shell.
func execForm(text string) (words []string) {
	_ = json.Unmarshal([]byte(text), &words)
	return words
}

var notRoot = regexp.MustCompile(`^[1-9][0-9]*(:[1-9][0-9]*)?$`)

func imageProblems(t *testing.T, text string) (problems []string) {
	t.Helper()
	i := parseImage(text)
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	check(len(i.unknown) == 0, "unknown instructions %q", i.unknown)
	check(i.base == "scratch" || strings.Contains(i.base, "distroless"), "the image is based on %q, which has a shell", i.base)
	check(notRoot.MatchString(i.user), "the user is %q, not a number above zero", i.user)
	check(slices.Contains(i.copied, imageOutput) && strings.Contains(i.build, "-o "+imageOutput+" "), "%s is not built and copied", imageOutput)
	check(slices.Contains(strings.Fields(i.build), "CGO_ENABLED=0"), "cgo makes the program need libraries")
	check(strings.HasSuffix(i.build, " ./cmd/outbox"), "it builds another program: %s", i.build)
	check(version.Compare("go"+i.goVersion, "go"+goDirective(t)) >= 0, "go %q is older than go.mod wants", i.goVersion)
	check(slices.Equal(i.entry, []string{"outbox"}), "the entry point is %q, not the program", i.entry)
	if problem := wrongCommand(t, i.cmd); problem != "" || len(i.cmd) == 0 {
		problems = append(problems, fmt.Sprintf("the command is %q: %s", i.cmd, problem))
	}
	return problems
}

func goDirective(t *testing.T) string {
	t.Helper()
	var file struct{ Go string }
	if err := json.Unmarshal(runGo(t, "mod", "edit", "-json"), &file); err != nil {
		t.Fatal(err)
	}
	return file.Go
}

// TestImage: the image is small, needs no libraries and is not root's.
func TestImage(t *testing.T) {
	wantFaults(t, dockerfile, imageProblems,
		fault{"FROM scratch", "FROM debian:12", "has a shell"},
		fault{"USER 65532:65532", "", `the user is ""`},
		fault{"USER 65532:65532", "USER 0", `the user is "0"`},
		fault{"USER 65532:65532", "USER outbox", "not a number"},
		fault{"CGO_ENABLED=0 ", "", "cgo"},
		fault{"./cmd/outbox", "./cmd/relay", "another program"},
		fault{"golang:1.26", "golang:1.20", "older than"},
		fault{"--from=build /outbox", "--from=build /relay", "not built and copied"},
		fault{`ENTRYPOINT ["outbox"]`, `ENTRYPOINT outbox`, "entry point"},
		fault{`CMD ["run"]`, `CMD ["start"]`, `unknown command "start"`},
		fault{"WORKDIR", "WORKDRI", "unknown instructions"})
}

package fence

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const comingFrom = "../../docs/coming-from.md"

// names is what the project calls things.
type names struct {
	golang map[string]bool // package.Name, package.Type.Member
	sql    map[string]bool // schema.relation, schema.relation.column, schema.function, schema.function(argument)
	header string          // source of the headers

	asked map[string]string // what was wrong with names that were looked up
}

func ourNames(t *testing.T) names {
	t.Helper()
	n := names{golang: map[string]bool{}, sql: map[string]bool{}, header: read(t, "../../natssink/message.go"), asked: map[string]string{}}
	for name, dir := range map[string]string{"outbox": ".", "pgstore": "pgstore", "natssink": "natssink", "rabbitsink": "rabbitsink", "outboxtest": "outboxtest", "otelhook": "otelhook"} {
		paths, _ := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") {
				n.addGo(t, name, path)
			}
		}
	}
	for _, path := range files(t, ".sql") {
		if strings.Contains(path, "migrations") {
			n.addSQL(read(t, path))
		}
	}
	return n
}

func (n names) addGo(t *testing.T, name, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			n.golang[name+"."+receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				n.addSpec(name, spec)
			}
		}
	}
}

// receiver is the type of a method, and a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return fmt.Sprint(of) + "."
}

func (n names) addSpec(name string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			n.golang[name+"."+id.Name] = true
		}
	case *ast.TypeSpec:
		n.golang[name+"."+s.Name.Name] = true
		if of, ok := s.Type.(*ast.StructType); ok {
			for _, field := range of.Fields.List {
				for _, id := range field.Names {
					n.golang[name+"."+s.Name.Name+"."+id.Name] = true
				}
			}
		}
	}
}

var (
	created   = regexp.MustCompile(`(?ms)^create (?:table|view|sequence) (outbox\.\w+)(?: \((.*?)^\))?`)
	function  = regexp.MustCompile(`(?s)create function (outbox\.\w+)\((.*?)\)\s*returns`)
	firstWord = regexp.MustCompile(`(?:^|[,(])\s*(?:(?:inout|out|variadic) )?(\w+) \w`)
	column    = regexp.MustCompile(`(?m)^    ([a-z_]+) +[a-z]`)
)

func (n names) addSQL(text string) {
	for _, match := range created.FindAllStringSubmatch(text, -1) {
		n.sql[match[1]] = true
		for _, c := range column.FindAllStringSubmatch(match[2], -1) {
			n.sql[match[1]+"."+c[1]] = true
		}
	}
	for _, match := range function.FindAllStringSubmatch(text, -1) {
		n.sql[match[1]] = true
		for _, a := range firstWord.FindAllStringSubmatch(match[2], -1) {
			n.sql[match[1]+"("+a[1]+")"] = true
		}
	}
}

var (
	goName  = regexp.MustCompile(`^[a-z]+\.[A-Z]`)
	setting = regexp.MustCompile(`^[a-z]+(?:[._][a-z_]+)*: \S`)
)

// unknown says why a name is none of ours.
func (n names) unknown(t *testing.T, name string) string {
	t.Helper()
	problem, ok := n.asked[name]
	if !ok {
		problem = n.lookUp(t, name)
		n.asked[name] = problem
	}
	return problem
}

func (n names) lookUp(t *testing.T, name string) string {
	t.Helper()
	known := false
	switch {
	case strings.HasPrefix(name, "outbox "):
		return wrongCommand(t, strings.Fields(name)[1:])
	case strings.HasPrefix(name, "OUTBOX_"):
		_, problem := printedConfig(t, map[string]string{name: ""})
		return problem
	case strings.HasPrefix(name, "Outbox-") || strings.HasPrefix(name, "Nats-"):
		known = strings.Contains(n.header, `"`+name+`"`) || name == "Nats-Msg-Id" && strings.Contains(n.header, "nats.MsgIdHdr")
	case setting.MatchString(name):
		return wrongSetting(t, name)
	case goName.MatchString(name):
		known = n.golang[name]
	default:
		known = n.sql[name]
	}
	if !known {
		return "there is no such name"
	}
	return ""
}

// wrongSetting asks the program about one line of a configuration file.
func wrongSetting(t *testing.T, line string) string {
	t.Helper()
	key, value, _ := strings.Cut(line, ": ")
	text := fmt.Sprintf("{%s: %q}", strings.ReplaceAll(key, ".", ": {"), value) + strings.Repeat("}", strings.Count(key, "."))
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	write(t, path, text)
	// What belongs to a destination is an error without one, and may be a variable for it.
	env := map[string]string{"OUTBOX_TO": "nats://localhost"}
	if strings.Contains("stream create subjects subject", key) {
		env["OUTBOX_STREAM"], env["OUTBOX_SUBJECTS"] = "ORDERS", "orders.>"
	}
	if strings.Contains("exchange broker_ttl tracking_ids", key) {
		env["OUTBOX_TO"] = "amqp://localhost"
	}
	_, problem := printedConfig(t, env, "--config", path)
	return problem
}

var (
	row  = regexp.MustCompile(`(?m)^\|[^|]*\|([^|]*)\|[^|]*\|$`)
	name = regexp.MustCompile("`([^`]+)`")
)

// strangers are the names in second columns that are none of ours, and rows that neither have one nor say so.
func (n names) strangers(t *testing.T, text string) (problems []string) {
	t.Helper()
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		cell := strings.TrimSpace(match[1])
		found := name.FindAllStringSubmatch(cell, -1)
		if len(found) == 0 && !slices.Contains([]string{"ours", "---", "not here", "always so"}, cell) {
			problems = append(problems, fmt.Sprintf("the row %q has no name of ours", match[0]))
		}
		for _, ours := range found {
			if problem := n.unknown(t, ours[1]); problem != "" {
				problems = append(problems, fmt.Sprintf("%s: %s", ours[1], problem))
			}
		}
	}
	return problems
}

// TestNamesExist: what users of other systems are told to use is there.
func TestNamesExist(t *testing.T) {
	n := ourNames(t)
	wantFaults(t, comingFrom, n.strangers,
		fault{"`outbox.Relay.Run`", "`outbox.Relay.Start`", "outbox.Relay.Start: there is no such name"},
		fault{"`outbox.Message.DedupKey`", "`outbox.Message.UniqueKey`", "no such name"},
		fault{"`outbox.RetryAfter`", "`outbox.RetryIn`", "no such name"},
		fault{"`poll_interval: 1.5s`", "`pol_interval: 1.5s`", "there is no such key; did you mean poll_interval"},
		fault{"`retry.base: 1s`", "`retry.first: 1s`", "there is no such key"},
		fault{"`retry.max: 5m`", "`retry.max: 5`", "retry.max"},
		fault{"`broker_ttl: 1d`", "`broker_ttl: 1`", "broker_ttl"},
		fault{"`notify: trigger`", "`notify: always`", "must be publish, trigger or off"},
		fault{"`OUTBOX_DATABASE_URL`", "`OUTBOX_DB_URL`", "there is no such setting"},
		fault{"`outbox migrate up`", "`outbox migrate apply`", "apply"},
		fault{"`outbox status --json`", "`outbox status --jsn`", "unknown flag"},
		fault{"`outbox.set_notify`", "`outbox.notify`", "no such name"},
		fault{"`outbox.waiting.published_at`", "`outbox.waiting.sent_at`", "no such name"},
		fault{"`outbox.publish(broker_ttl)`", "`outbox.publish(expiration)`", "no such name"},
		fault{"`outbox.dead`", "`outbox.failed`", "no such name"},
		fault{"`Outbox-Id`", "`Outbox-Event-Id`", "no such name"},
		fault{"| `outbox.Message.Payload` |", "| the payload |", "has no name of ours"})
}

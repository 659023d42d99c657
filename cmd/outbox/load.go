package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox/internal/spell"
)

const (
	envPrefix = "OUTBOX_"
	envFile   = "OUTBOX_CONFIG"
)

// notOurs begin variables that are not settings: the links to a Kubernetes service named outbox, and the tests'.
var notOurs = [...]string{"OUTBOX_SERVICE_", "OUTBOX_PORT", "OUTBOX_TEST_"}

// settingFlag marks the flags of settings: a command may have a flag of its own by the name of a setting that it does
// not have, as publish has --max-attempts.
const settingFlag = "setting"

// addSettings gives a command the flags of all settings up to a scope, and --config.
func addSettings(cmd *cobra.Command, most scope) {
	flags := cmd.Flags()
	flags.StringP("config", "c", "", "configuration `file` (OUTBOX_CONFIG)")
	for _, s := range settings() {
		if s.scope > most {
			continue
		}
		usage := fmt.Sprintf("%s (%s)", s.usage, s.env())
		if s.def != "" {
			usage = fmt.Sprintf("%s (%s, default %s)", s.usage, s.env(), s.def)
		}
		flags.String(s.flag(), "", usage)
		f := flags.Lookup(s.flag())
		f.Annotations = map[string][]string{settingFlag: {s.key}}
		if s.boolean {
			f.NoOptDefVal = "true"
		}
	}
	flags.SortFlags = false
}

// loader gathers the configuration from its sources, and everything that is wrong with it.
type loader struct {
	c        *config
	env      map[string]string
	used     map[string]bool // variables that the file names
	known    []setting
	unset    bool // the file names one that is not set
	problems problems
}

// load reads the configuration that a command runs with. The error lists all problems.
func (a *app) load(cmd *cobra.Command) (*config, error) {
	a.repeated.remember(cmd)
	l := &loader{c: newConfig(), env: environ(a.env), used: map[string]bool{}, known: settings()}
	file, _ := cmd.Flags().GetString("config")
	if file == "" {
		file = l.env[envFile]
	}
	if file != "" {
		l.readFile(file)
	}
	l.readEnv()
	l.readFlags(cmd)
	l.dropOverruled()
	l.apply()
	l.problems = append(l.problems, l.c.check(l.unset)...)
	if len(l.problems) > 0 {
		return nil, &failure{exitUsage, l.problems}
	}
	path, _ := l.c.sqliteFile() // what is wrong is told when it is opened
	a.repeated.sqlite, a.repeated.aimed = path != "", len(l.c.targets()) > 0
	return l.c, nil
}

func newConfig() *config {
	return &config{given: map[string]given{}, logFormat: "text", admin: adminDefault,
		to: destination{name: defaultDestination, options: map[string]string{}}}
}

func environ(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		m[name] = value
	}
	return m
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// give notes a value unless a source of a higher rank has given one. An empty text is the default, and leaves what
// sources of lower rank say.
func (l *loader) give(key, text string, from origin) {
	if old, ok := l.c.given[key]; text != "" && (!ok || old.origin.rank <= from.rank) {
		l.c.given[key] = given{text, from}
	}
}

func (l *loader) readEnv() {
	names := make([]string, 0, len(l.env))
	for name := range l.env {
		if strings.HasPrefix(name, envPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	known := map[string]string{envFile: ""}
	var all []string
	for _, s := range l.known {
		known[s.env()] = s.key
		all = append(all, s.env())
	}
	for _, name := range names {
		key, ok := known[name]
		switch {
		case key != "":
			l.give(key, l.env[name], origin{rankEnv, "environment " + name})
		case !ok && !l.used[name] && !foreign(name):
			l.problem("%s: there is no such setting%s", name, didYouMean(spell.Nearest(name, append(all, envFile)))+serviceLink(name))
		}
	}
}

func foreign(name string) bool {
	return slices.ContainsFunc(notOurs[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// serviceLink hints at who may have set a variable: Kubernetes, for a service whose name begins with outbox-.
func serviceLink(name string) string {
	if strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT") {
		return "; if it is a link to a Kubernetes service, set enableServiceLinks: false"
	}
	return ""
}

func (l *loader) readFlags(cmd *cobra.Command) {
	for _, s := range l.known {
		if f := cmd.Flags().Lookup(s.flag()); f != nil && f.Changed && f.Annotations[settingFlag] != nil {
			l.give(s.key, f.Value.String(), origin{rankFlag, "flag --" + s.flag()})
		}
	}
}

// dropOverruled leaves one of a URL and the file that holds it: the one whose source ranks higher.
func (l *loader) dropOverruled() {
	for _, key := range []string{"database.url", "database.listen_url", "to"} {
		fileKey := key + "_file"
		text, hasText := l.c.given[key]
		file, hasFile := l.c.given[fileKey]
		switch {
		case !hasText || !hasFile:
		case text.origin.rank == file.origin.rank:
			l.problem("%s (%s) and %s (%s) exclude each other", key, text.origin.text, fileKey, file.origin.text)
		case text.origin.rank > file.origin.rank:
			delete(l.c.given, fileKey)
		default:
			delete(l.c.given, key)
		}
	}
}

// apply sets what was given.
func (l *loader) apply() {
	for _, s := range l.known {
		g, ok := l.c.given[s.key]
		if !ok {
			continue
		}
		if err := s.set(l.c, g.text); err != nil {
			shown := g.text
			if s.secret {
				shown = mask(shown)
			}
			l.problem("%s %q (%s): %v", s.key, shown, g.origin.text, err)
		}
	}
	if l.c.listen.isSet() {
		url, err := l.c.listen.read()
		if err != nil {
			l.problem("database.listen_url_file: %v", err)
		}
		l.c.store.ListenURL = url
	}
	if l.c.database.file != "" {
		if _, err := l.c.database.read(); err != nil {
			l.problem("database.url_file: %v", err)
		}
	}
}

// inFolderOf makes a relative path that a file names one beside it.
func inFolderOf(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

func readConfigFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return text, nil
}

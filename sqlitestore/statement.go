package sqlitestore

import (
	"embed"
	"path"
	"regexp"
	"strings"
)

const (
	defaultPrefix = "outbox_"
	prefixBound   = "must be 1 to 40 of a-z 0-9 _, not beginning with a digit or sqlite_"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// statements are the texts of queries, by file name without its ending.
type statements map[string]string

func newStatements(prefix string) statements {
	all := statements{}
	files, _ := queryFiles.ReadDir("queries") // embedded, so it is there
	for _, f := range files {
		text, _ := queryFiles.ReadFile(path.Join("queries", f.Name()))
		all[strings.TrimSuffix(f.Name(), ".sql")] = render(uncommented(string(text)), prefix)
	}
	return all
}

func validPrefix(prefix string) bool {
	if prefix == "" || len(prefix) > 40 || strings.HasPrefix(prefix, "sqlite_") || prefix[0] >= '0' && prefix[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
}

// prefixWord finds the names of the outbox's tables, views and indexes.
var prefixWord = regexp.MustCompile(`\boutbox_([a-z])`)

// render puts the prefix into SQL text that is written for the prefix outbox_, so that the sqlite3 shell runs the text
// as it is. The prefix must be valid.
func render(sql, prefix string) string { return prefixWord.ReplaceAllString(sql, prefix+"$1") }

var commentLine = regexp.MustCompile(`(?m)^\s*--.*\n`)

// uncommented is a statement without its comments, which SQLite would parse with each call.
func uncommented(sql string) string { return commentLine.ReplaceAllString(sql, "") }

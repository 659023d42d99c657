package pgstore

import (
	"regexp"
	"slices"
)

// altered finds what a statement at the beginning of a line takes for itself: a table, an index or, without a name, everything.
var altered = regexp.MustCompile(`(?m)^(?:alter (?:table|index)|drop (?:table|index)|truncate(?: table)?|lock table|update|delete from|` +
	`create (?:unique )?index(?: [a-z0-9_]+)? on|(?:create(?: or replace)?(?: constraint)?|drop) trigger .* on) (?:if exists |only )*outbox\.([a-z0-9_]+)|` +
	`^drop schema`)

// alteredTables are the tables and indexes that migrations change, if they are there before.
func alteredTables(ms []migration) []string {
	var texts []string
	for _, m := range ms {
		for _, file := range m.up {
			texts = append(texts, file.text)
		}
	}
	return alteredIn(texts)
}

// restoredTables are those that are changed when migrations are taken back, and those of messages; nil: all.
func restoredTables(ms []migration) []string {
	var texts []string
	for _, m := range ms {
		texts = append(texts, m.down)
	}
	names := alteredIn(texts)
	if names == nil {
		return nil
	}
	return append(names, "message", "waiting", "dead")
}

// alteredIn returns nil for all.
func alteredIn(texts []string) []string {
	names := []string{}
	for _, text := range texts {
		for _, match := range altered.FindAllStringSubmatch(text, -1) {
			if match[1] == "" {
				return nil
			}
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

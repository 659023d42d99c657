package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

// naming is what those who gave a value call the library's field of that name; empty: they did not give it.
type naming func(field string) string

// flagNames are the flags of a command: --older-than for OlderThan.
func flagNames(cmd *cobra.Command) naming {
	differ := map[string]string{"IDs": "id", "States": "state", "Topics": "topic", "Text": "error", "BoundTo": "destination", "Headers": "header", "target version": "target"}
	return func(field string) string {
		name, ok := differ[field]
		if !ok {
			name = strings.ReplaceAll(snake(field), "_", "-")
		}
		if cmd.Flags().Lookup(name) == nil {
			return ""
		}
		return "--" + name
	}
}

// told is the text of an error, with the library's refusals in the words of those who gave the values.
func told(err error, name naming) string {
	text := err.Error()
	for _, refused := range refusals(err) {
		text = strings.Replace(text, refused.Error(), reword(refused, name), 1)
	}
	return text
}

// refusals are all refusals in an error.
func refusals(err error) (list []*outbox.FieldError) {
	switch e := err.(type) {
	case nil:
	case *outbox.FieldError:
		list = append(list, e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, refusals(inner)...)
		}
	case interface{ Unwrap() error }:
		list = refusals(e.Unwrap())
	}
	return list
}

// fieldWord is what may be the name of a field in the text of a bound.
var fieldWord = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)

func reword(e *outbox.FieldError, name naming) string {
	field, part, _ := strings.Cut(e.Field, "[")
	shown := name(field)
	switch part = strings.TrimSuffix(part, "]"); {
	case shown == "":
		shown = e.Field
	case part != "":
		shown += " " + part
	}
	bound := strings.TrimSuffix(e.Bound, "; a chain of causes is given by WithCausation")
	bound = fieldWord.ReplaceAllStringFunc(inSettings(bound), func(word string) string {
		if known := name(word); known != "" {
			return known
		}
		return word
	})
	return fmt.Sprintf("%s %q: %s", shown, e.Value, bound)
}

// inSettings gives the library's names of values the words that flags and settings have.
func inSettings(bound string) string {
	return strings.NewReplacer("KeepForever", "forever", "Unlimited", "unlimited", "DisableJitter", "off", "at least Base", "at least retry.base").Replace(bound)
}
